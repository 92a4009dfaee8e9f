// A level's neurons in one element, drawn once per grouping. A neuron is a row, 0 to m - 1, the same in every picture: what
// is hovered over, encircled or picked in one shows in all at once, and the server gets it when the gesture has ended. The
// server says what to draw and where; this file draws it on a canvas or into an SVG file.

const SPACE = { left: 28, right: 8, top: 6, bottom: 24 } // px around the frame, for the axes
const PADDED = 1.06 // the frame's size as a multiple of its content's
const FOOT = { height: 28, line: 13, text: 10 } // px, the lines at a file's foot
const HEAD = 26 // px, a file's heading
const SHARP = 3 // pixels of a saved PNG per pixel of the page
const OUT = 7 // px, the stroke of a mark outside the frame
const NAMED = 12 // most ringed neurons with names
const NEAR = { mouse: 10, touch: 24 } // most px between a pointer and the neuron it means
const MOVED = 5 // px of movement that make a press more than a click
const WAIT = 160 // ms from a gesture to telling the server: a second one may follow
const EDGE = 1.6 // px, a mark's outline, in its network's colour
const OTHER = 6, ALONE = 7 // kinds of neurons; 0 is the densest cluster, 1 to 5 have a hue

const figures = new WeakMap() // the component's element -> its figure

export default function ({ parentElement, data, setTriggerValue }) {
    let figure = figures.get(parentElement)
    if (!figure) figures.set(parentElement, (figure = new Figure(parentElement)))
    figure.show(JSON.parse(new TextDecoder().decode(data)), (name, told) => setTriggerValue(name, told))
    return () => {
        figure.remove()
        figures.delete(parentElement)
    }
}

// --- shapes ---------------------------------------------------------------------------------------

/** Corners of a mark around (x, y), as Plotly draws it; null for a circle. */
function corners(shape, x, y, size) {
    const r = size / 2
    const around = (pairs) => pairs.map(([across, down]) => [x + across * r, y + down * r])
    switch (shape) {
        case 'diamond': return around([[1.3, 0], [0, 1.3], [-1.3, 0], [0, -1.3]])
        case 'square': return around([[1, 1], [-1, 1], [-1, -1], [1, -1]])
        case 'triangle-up': return around([[-1.155, 0.5], [1.155, 0.5], [0, -1]])
        case 'pentagon': return around([[0.951, -0.309], [0.588, 0.809], [-0.588, 0.809], [-0.951, -0.309], [0, -1]])
        case 'cross': return around([
            [1.2, 0.48], [0.48, 0.48], [0.48, 1.2], [-0.48, 1.2], [-0.48, 0.48], [-1.2, 0.48],
            [-1.2, -0.48], [-0.48, -0.48], [-0.48, -1.2], [0.48, -1.2], [0.48, -0.48], [1.2, -0.48],
        ])
        default: return null
    }
}

/** Draws on a canvas. */
class CanvasPen {
    constructor(context, font) {
        this.context = context
        this.font = font
    }
    line(points, colour, width, { closed = false, fill = '', dash = [] } = {}) {
        const c = this.context
        c.beginPath()
        points.forEach(([x, y], index) => (index ? c.lineTo(x, y) : c.moveTo(x, y)))
        if (closed) c.closePath()
        if (fill) {
            c.fillStyle = fill
            c.fill()
        }
        c.setLineDash(dash)
        c.strokeStyle = colour
        c.lineWidth = width
        c.stroke()
        c.setLineDash([])
    }
    /** Hairlines from a centre to several ends, as one path. */
    spokes(middle, ends, colour, width) {
        const c = this.context
        c.beginPath()
        for (const [x, y] of ends) {
            c.moveTo(...middle)
            c.lineTo(x, y)
        }
        c.strokeStyle = colour
        c.lineWidth = width
        c.stroke()
    }
    /** A mark; without a fill it is hollow. */
    mark(shape, x, y, size, fill, edge, width, opacity = 1) {
        const c = this.context, points = corners(shape, x, y, size)
        c.globalAlpha = opacity
        c.beginPath()
        if (points) {
            points.forEach(([px, py], index) => (index ? c.lineTo(px, py) : c.moveTo(px, py)))
            c.closePath()
        } else c.arc(x, y, size / 2, 0, 2 * Math.PI)
        if (fill) {
            c.fillStyle = fill
            c.fill()
        }
        c.strokeStyle = edge
        c.lineWidth = width
        c.stroke()
        c.globalAlpha = 1
    }
    text(words, x, y, size, colour, { align = 'center', turned = false, halo = '', bold = false } = {}) {
        const c = this.context
        c.save()
        c.translate(x, y)
        if (turned) c.rotate(-Math.PI / 2)
        c.font = `${bold ? 600 : 400} ${size}px ${this.font}`
        c.textAlign = align
        c.textBaseline = 'alphabetic'
        if (halo) {
            c.strokeStyle = halo
            c.lineWidth = size / 4
            c.lineJoin = 'round'
            c.strokeText(words, 0, 0)
        }
        c.fillStyle = colour
        c.fillText(words, 0, 0)
        c.restore()
    }
}

/** Writes the same as parts of an SVG file. */
class SvgPen {
    constructor(font) {
        this.font = font.replaceAll('"', "'")
        this.parts = []
    }
    line(points, colour, width, { closed = false, fill = 'none', dash = [] } = {}) {
        const d = points.map(([x, y], index) => `${index ? 'L' : 'M'}${short(x)} ${short(y)}`).join('') + (closed ? 'Z' : '')
        const dashed = dash.length ? ` stroke-dasharray="${dash.join(' ')}"` : ''
        this.parts.push(`<path d="${d}" fill="${fill || 'none'}" stroke="${colour}" stroke-width="${short(width)}"${dashed}/>`)
    }
    spokes([x, y], ends, colour, width) {
        const d = ends.map(([ex, ey]) => `M${short(x)} ${short(y)}L${short(ex)} ${short(ey)}`).join('')
        this.parts.push(`<path d="${d}" fill="none" stroke="${colour}" stroke-width="${short(width)}"/>`)
    }
    mark(shape, x, y, size, fill, edge, width, opacity = 1) {
        const style = `fill="${fill || 'none'}" stroke="${edge}" stroke-width="${short(width)}"` +
            (opacity < 1 ? ` opacity="${opacity}"` : '')
        const points = corners(shape, x, y, size)
        this.parts.push(points
            ? `<polygon points="${points.map(point => point.map(short).join(',')).join(' ')}" ${style}/>`
            : `<circle cx="${short(x)}" cy="${short(y)}" r="${short(size / 2)}" ${style}/>`)
    }
    text(words, x, y, size, colour, { align = 'center', turned = false, halo = '', bold = false } = {}) {
        const anchor = { center: 'middle', left: 'start', right: 'end' }[align]
        const around = halo ? ` stroke="${halo}" stroke-width="${short(size / 4)}" paint-order="stroke"` : ''
        const place = turned ? `transform="translate(${short(x)} ${short(y)}) rotate(-90)"` : `x="${short(x)}" y="${short(y)}"`
        this.parts.push(`<text ${place} font-size="${short(size)}" fill="${colour}" text-anchor="${anchor}"` +
            `${bold ? ' font-weight="600"' : ''}${around}>${escaped(words)}</text>`)
    }
    file(width, height, paper, title) {
        return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
            `font-family="${escaped(this.font)}" role="img"><title>${escaped(title)}</title>` +
            `<rect width="${width}" height="${height}" fill="${paper}"/>${this.parts.join('')}</svg>`
    }
}

const short = number => String(Math.round(number * 100) / 100)
const escaped = text => text.replace(/[&<>"]/g, sign => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign])

// --- one picture ----------------------------------------------------------------------------------

/** One grouping of the neurons: their places, sizes and drawing order. */
class Picture {
    constructor(shared, own) {
        Object.assign(this, own, own.marks)
        this.shared = shared
        const weights = this.importance.map(Number), count = weights.length
        this.members = new Map(this.labels.map(label => [label, []]))
        this.labels.forEach((label, row) => this.members.get(label).push(row))
        this.sizes = weights.map(weight => Math.min(Math.max(shared.unit * Math.sqrt(weight), 4), 26))
        const layer = this.kinds.map(kind => (kind === ALONE ? 0 : kind === OTHER ? 1 : kind ? 2 : 3))
        // Small marks on top of large ones; the densest cluster on top of all.
        this.order = [...Array(count).keys()].sort((a, b) => layer[a] - layer[b] || this.sizes[b] - this.sizes[a] || a - b)
        this.middles = new Map()
        this.weights = weights
    }

    /** A cluster's importance-weighted mean, kept inside the frame; without importance all count alike. */
    middle(label) {
        if (!this.middles.has(label)) {
            const rows = this.members.get(label), { x, y, low, high } = this.shared
            const total = rows.reduce((sum, row) => sum + this.weights[row], 0)
            const share = row => (total > 0 ? this.weights[row] / total : 1 / rows.length)
            const mean = axis => rows.reduce((sum, row) => sum + share(row) * axis[row], 0)
            const within = (value, axis) => Math.min(Math.max(value, low[axis]), high[axis])
            this.middles.set(label, [within(mean(x), 0), within(mean(y), 1)])
        }
        return this.middles.get(label)
    }

    /** A neuron's tooltip, in lines. */
    tip(row) {
        const { off, names } = this.shared, label = this.labels[row], count = this.members.get(label).length
        return [
            `neuron ${names[row]}${off.has(row) ? ', off-scale' : ''}`,
            `group ${label}, ${count} members`,
            `importance ${this.importance[row]} × mean`,
            `${this.distances[row]} from its group's mean`,
        ]
    }
}

/** The frame in a picture of this size, and how points map into it. */
function geometry(shared, width, height, scale, top = 0) {
    const [left, right, above, below] = [SPACE.left, SPACE.right, SPACE.top, SPACE.bottom].map(room => room * scale)
    const side = Math.max(Math.min(width - left - right, height - above - below), 20)
    const x0 = left + (width - left - right - side) / 2, y0 = top + above
    const [cx, cy] = shared.centre, reach = shared.reach * PADDED
    const at = (x, y) => [x0 + ((x - cx) / reach + 1) * side / 2, y0 + (1 - (y - cy) / reach) * side / 2]
    return { x0, y0, side, scale, at, place: row => at(shared.x[row], shared.y[row]) }
}

/** Draw a picture with axes, lines, marks and rings. */
function draw(pen, picture, box, colours, looks) {
    const { shared } = picture, { scale, x0, y0, side } = box
    const text = shared.text * scale
    pen.line([[x0, y0], [x0 + side, y0], [x0 + side, y0 + side], [x0, y0 + side]], colours.line, scale, { closed: true })
    pen.text(shared.axes[0], x0 + side / 2, y0 + side + 6 * scale + text, text, colours.ink)
    pen.text(shared.axes[1], x0 - 8 * scale, y0 + side / 2, text, colours.ink, { turned: true })
    const few = shared.names.length <= shared.few
    for (const label of picture.joined) {
        const rows = picture.members.get(label).filter(row => few || !shared.off.has(row)), kind = picture.kinds[rows[0]]
        const colour = kind === OTHER ? colours.muted : colours.fills[kind]
        pen.spokes(box.at(...picture.middle(label)), rows.map(box.place), colour, (kind === 0 ? 0.8 : 1.2) * scale)
    }
    if (looks.followed.length) {
        const places = looks.followed.map(box.place)
        const middle = [0, 1].map(axis => places.reduce((sum, place) => sum + place[axis], 0) / places.length)
        pen.spokes(middle, places, colours.accent, 1.6 * scale)
    }
    const picked = new Set(looks.picked)
    for (const row of picture.order) if (!picked.has(row)) mark(pen, picture, box, colours, row, picked.size ? 0.25 : 1)
    for (const row of picture.order) if (picked.has(row)) mark(pen, picture, box, colours, row)
    for (const row of looks.picked) ring(pen, picture, box, colours, row, 5, 1.5)
    for (const row of looks.marked) {
        ring(pen, picture, box, colours, row, 9, 3)
        if (looks.marked.length <= NAMED) name(pen, picture, box, colours, row)
    }
}

/** Draw one neuron; one outside the frame is on the border, with a stroke outwards. */
function mark(pen, picture, box, colours, row, opacity = 1) {
    const { shared } = picture, kind = picture.kinds[row], off = shared.off.has(row)
    const fill = colours.fills[kind], [x, y] = box.place(row)
    const parent = shared.parents[row], edge = colours.networks[parent % colours.networks.length]
    const size = picture.sizes[row] * box.scale
    if (off) {
        const [cx, cy] = box.at(...shared.centre), away = Math.hypot(x - cx, y - cy)
        const out = reach => [x + (x - cx) / away * reach, y + (y - cy) / away * reach]
        pen.line([[x, y], out(size / 2 + OUT * box.scale)], kind === ALONE ? edge : fill, 2 * box.scale)
    }
    pen.mark(shared.shapes[parent], x, y, size, fill, edge, EDGE * box.scale, opacity)
}

function ring(pen, picture, box, colours, row, wider, width) {
    const [x, y] = box.place(row)
    pen.mark('circle', x, y, (picture.sizes[row] + wider) * box.scale, '', colours.accent, width * box.scale)
}

/** Draw a ringed neuron's name, above it if there is room. */
function name(pen, picture, box, colours, row) {
    const [x, y] = box.place(row), size = picture.shared.text * box.scale
    const away = (picture.sizes[row] / 2 + 8) * box.scale, above = y - away - size > box.y0
    const words = picture.shared.names[row]
    pen.text(words, x, above ? y - away : y + away + 0.7 * size, size, colours.accent, { halo: colours.paper, bold: true })
}

/** In the pictures other than the one with the tooltip: the cluster of the same neuron. */
function note(pen, picture, box, colours, row) {
    const [x, y] = box.place(row), size = picture.shared.text * box.scale, label = picture.labels[row]
    const count = picture.members.get(label).length, c = pen.context
    const words = count > 1 ? `group ${label}, ${count} members` : 'alone'
    const away = (picture.sizes[row] / 2 + 9) * box.scale, above = y - away - 1.6 * size > box.y0
    c.font = `${size}px ${pen.font}`
    const width = c.measureText(words).width + size, height = 1.5 * size
    const left = Math.min(Math.max(x - width / 2, box.x0), Math.max(box.x0 + box.side - width, box.x0))
    const top = above ? y - away - height : y + away
    pen.line([[left, top], [left + width, top], [left + width, top + height], [left, top + height]],
        colours.muted, box.scale, { closed: true, fill: colours.paper })
    pen.text(words, left + size / 2, top + 1.08 * size, size, colours.ink, { align: 'left' })
}

// --- the element ----------------------------------------------------------------------------------

/** All pictures of a step, their gestures and keys. */
class Figure {
    constructor(parent) {
        this.root = element('div', 'retrofit-neurons')
        this.tip = element('div', 'tip')
        this.said = element('div', 'said')
        this.said.setAttribute('aria-live', 'polite')
        this.root.append(this.tip, this.said)
        parent.append(this.root)
        this.panes = []
        this.turn = 0 // number of the last gesture told to the server
        this.own = null // rows picked here that the server does not know yet
        this.hovered = -1
        this.tip.hidden = true
        this.observer = new ResizeObserver(() => this.root.clientWidth !== this.width && this.paint())
        this.observer.observe(this.root)
        this.save = event => event.detail.chart === this.data?.key && this.file(event.detail)
        document.addEventListener('retrofit-save', this.save)
        // Paper shows what is on the canvas: another width would clear it, too late to draw it again.
        this.hold = () => this.root.style.setProperty('width', `${this.root.clientWidth}px`)
        this.printed = () => this.root.style.removeProperty('width')
        window.addEventListener('beforeprint', this.hold)
        window.addEventListener('afterprint', this.printed)
        this.root.addEventListener('keydown', event => this.key(event))
        document.fonts.ready.then(() => this.paint())
    }

    remove() {
        clearTimeout(this.timer)
        this.observer.disconnect()
        this.sharpness?.removeEventListener('change', this.repaint)
        document.removeEventListener('retrofit-save', this.save)
        window.removeEventListener('beforeprint', this.hold)
        window.removeEventListener('afterprint', this.printed)
        this.root.remove()
    }

    get picked() {
        return this.own ?? this.data.picked
    }

    /** Take new data from the server. A selection on its way there stays until the server has it. */
    show(data, tell) {
        const other = !this.data || data.level !== this.data.level
        const focus = this.panes.findIndex(pane => pane.frame === document.activeElement)
        if (!this.data) this.turn = data.turn
        if (other) clearTimeout(this.timer)
        if (other || data.turn >= this.turn) this.own = null
        this.data = data
        this.tell = tell
        const { plane } = data
        plane.off = new Set(plane.off)
        plane.parents = plane.widths.flatMap((width, parent) => Array(width).fill(parent))
        plane.low = plane.centre.map(value => value - plane.reach)
        plane.high = plane.centre.map(value => value + plane.reach)
        this.pictures = data.pictures.map(own => new Picture(plane, own))
        this.frames()
        const hovered = other ? -1 : this.hovered
        this.hover(-1)
        this.paint()
        if (hovered >= 0 && this.over < this.panes.length) this.hover(hovered)
        if (focus >= 0 && this.panes[focus]) this.panes[focus].frame.focus({ preventScroll: true })
    }

    /** Make an element with texts for every picture. */
    frames() {
        while (this.panes.length > this.pictures.length) this.panes.pop().whole.remove()
        while (this.panes.length < this.pictures.length) this.panes.push(this.pane(this.panes.length))
        this.root.style.setProperty('--across', this.pictures.length)
        this.root.classList.toggle('one', this.pictures.length === 1)
        this.pictures.forEach((picture, index) => {
            const { whole, heading, frame, words } = this.panes[index]
            whole.dataset.picture = picture.key
            heading.replaceChildren(this.title(picture), picture.note)
            heading.hidden = !picture.name
            words.textContent = picture.words
            words.hidden = !picture.words
            // On a page pictures are squares that grow with the window; in a lecture they fill what is left of it.
            const least = `${this.data.height}px`, page = this.data.scale === 1
            Object.assign(frame.style, { height: page ? 'auto' : least, minHeight: least, aspectRatio: page ? '1' : 'auto' })
            frame.style.maxHeight = `max(60vh, ${least})`
            frame.classList.toggle('draws', this.data.mode !== 'click')
            frame.setAttribute('aria-label', picture.alt)
        })
    }

    /** The start of a heading; a button if a click on it makes the tables follow this picture. */
    title(picture) {
        if (!picture.score) return element(picture.bold ? 'b' : 'span', '', picture.name)
        const button = element('button', 'score', picture.name)
        button.setAttribute('aria-pressed', picture.bold)
        button.title = picture.bold ? 'The tables below follow this score.' : 'Let the tables below follow this score.'
        button.onclick = () => this.tell('score', picture.score)
        return button
    }

    pane(index) {
        const whole = element('figure', 'picture'), heading = element('figcaption', 'heading')
        const frame = element('div', 'frame'), words = element('p', 'words')
        const base = element('canvas', 'base'), over = element('canvas', 'over')
        frame.tabIndex = 0
        frame.setAttribute('role', 'img')
        frame.append(base, over)
        whole.append(heading, frame, words)
        this.root.insertBefore(whole, this.tip)
        const on = (name, act) => frame.addEventListener(name, event => act.call(this, event, index))
        on('pointerdown', this.press)
        on('pointermove', this.move)
        on('pointerup', this.release)
        on('pointercancel', this.stop)
        on('pointerleave', event => event.pointerType !== 'touch' && this.hover(-1))
        on('focus', () => frame.matches(':focus-visible') && this.hover(this.cursor(), index, true))
        on('blur', () => this.hover(-1))
        return { whole, heading, frame, words, base, over }
    }

    // --- drawing

    /** The theme's colours, chosen by the page's background. */
    colours() {
        const style = getComputedStyle(this.root), probe = document.createElement('canvas').getContext('2d')
        probe.fillStyle = style.getPropertyValue('--st-background-color').trim() || '#fff'
        const [r, g, b] = [1, 3, 5].map(at => parseInt(probe.fillStyle.slice(at, at + 2), 16))
        const colours = this.data.colours[0.3 * r + 0.6 * g + 0.1 * b < 128 ? 'dark' : 'light']
        return { ...colours, fills: [colours.ink, ...colours.clusters, colours.grey, colours.paper], font: style.fontFamily }
    }

    get looks() {
        return { picked: this.picked, marked: this.data.marked, followed: this.data.followed }
    }

    /** Draw every picture in its column's size, at the screen's resolution. */
    paint() {
        if (!this.data) return
        this.width = this.root.clientWidth
        this.shades = this.colours()
        this.panes.forEach((pane, index) => {
            const { clientWidth: width, clientHeight: height } = pane.frame
            pane.box = geometry(this.data.plane, width, height, this.data.scale)
            draw(sized(pane.base, width, height, this.shades.font), this.pictures[index], pane.box, this.shades, this.looks)
        })
        this.paintOver()
        this.watch()
    }

    /** Redraw when the window moves to a screen of another resolution. */
    watch() {
        if (this.sharpest === devicePixelRatio) return
        this.sharpest = devicePixelRatio
        this.repaint ??= () => this.paint()
        this.sharpness?.removeEventListener('change', this.repaint)
        this.sharpness = matchMedia(`(resolution: ${devicePixelRatio}dppx)`)
        this.sharpness.addEventListener('change', this.repaint)
    }

    /** Draw what follows the pointer: the neuron with its cluster's lines in every picture, and the lasso. */
    paintOver() {
        const rows = this.drag?.rows ?? []
        this.panes.forEach((pane, index) => {
            const { clientWidth: width, clientHeight: height } = pane.frame, { box } = pane
            const pen = sized(pane.over, width, height, this.shades.font), picture = this.pictures[index]
            for (const row of rows) ring(pen, picture, box, this.shades, row, 4, 1.5)
            if (this.drag?.path && this.drag.index === index)
                pen.line(this.outline(), this.shades.accent, 1.5, { closed: true, fill: `${this.shades.accent}22`, dash: [5, 4] })
            if (this.hovered < 0 || this.drag?.path) return
            const row = this.hovered, label = picture.labels[row], members = picture.members.get(label)
            if (members.length > 1) pen.spokes(box.at(...picture.middle(label)), members.map(box.place), this.shades.accent, box.scale)
            for (const member of members) mark(pen, picture, box, this.shades, member)
            ring(pen, picture, box, this.shades, row, 7, 2.5)
            if (index !== this.over) note(pen, picture, box, this.shades, row)
        })
    }

    /** Show a neuron in all pictures, and its tooltip in one. */
    hover(row, index = this.over ?? 0, spoken = false) {
        if (row === this.hovered && (row < 0 || index === this.over)) return
        this.hovered = row
        this.over = index
        this.tip.hidden = row < 0
        if (this.shades) this.paintOver()
        if (row < 0) return
        const pane = this.panes[index], lines = this.pictures[index].tip(row), [x, y] = pane.box.place(row)
        this.tip.replaceChildren(...lines.map(line => element('div', '', line)))
        if (spoken) this.said.textContent = lines.join(', ')
        const frame = pane.frame.getBoundingClientRect(), root = this.root.getBoundingClientRect()
        const { offsetWidth: width, offsetHeight: height } = this.tip
        const left = frame.left - root.left + x, top = frame.top - root.top + y
        this.tip.style.left = `${left + 14 + width > root.width ? Math.max(left - 14 - width, 0) : left + 14}px`
        this.tip.style.top = `${Math.max(top - height - 8, frame.top - root.top)}px`
    }

    // --- pointer

    at(event, index) {
        const box = this.panes[index].frame.getBoundingClientRect()
        return [event.clientX - box.left, event.clientY - box.top]
    }

    /** The neuron that a point of a picture means; the upper of two, -1 for none. */
    nearest([x, y], index, reach) {
        const { box } = this.panes[index], picture = this.pictures[index]
        let best = -1, least = Infinity
        for (const row of picture.order) {
            const [px, py] = box.place(row), away = Math.hypot(px - x, py - y)
            const gap = away - picture.sizes[row] * box.scale / 2
            if (gap <= reach && Math.max(gap, 0) + away / 1000 <= least) {
                best = row
                least = Math.max(gap, 0) + away / 1000
            }
        }
        return best
    }

    press(event, index) {
        if (event.button || !event.isPrimary) return
        this.drag = { index, start: this.at(event, index), path: null, rows: [], adds: event.shiftKey }
        if (this.data.mode === 'click') return
        this.panes[index].frame.setPointerCapture(event.pointerId)
    }

    move(event, index) {
        const point = this.at(event, index), { drag } = this
        if (drag && event.buttons && this.data.mode !== 'click') {
            if (!drag.path && Math.hypot(point[0] - drag.start[0], point[1] - drag.start[1]) < MOVED) return
            drag.path = [...(drag.path ?? [drag.start]), point]
            this.tip.hidden = true
            this.drawing ??= requestAnimationFrame(() => {
                this.drawing = undefined
                if (!this.drag?.path) return
                this.drag.rows = this.within()
                this.paintOver()
            })
        } else if (event.pointerType !== 'touch') this.hover(this.nearest(point, index, NEAR.mouse), index)
    }

    release(event, index) {
        const { drag } = this, point = this.at(event, index)
        if (!drag) return
        const rows = drag.path && this.within()
        this.drag = null
        if (rows) {
            this.paintOver()
            if (rows.length) this.pick(rows, drag.adds)
            return
        }
        if (Math.hypot(point[0] - drag.start[0], point[1] - drag.start[1]) > MOVED) return
        const row = this.nearest(point, index, NEAR[event.pointerType === 'touch' ? 'touch' : 'mouse'])
        this.hover(row, index)
        if (row >= 0) this.pick([row], drag.adds)
    }

    stop() {
        this.drag = null
        this.hover(-1)
        this.paintOver()
    }

    /** The lasso or box as a polygon. */
    outline() {
        const { path, start } = this.drag
        if (this.data.mode !== 'box') return path
        const [x, y] = path[path.length - 1]
        return [start, [x, start[1]], [x, y], [start[0], y]]
    }

    within() {
        const polygon = this.outline(), { box } = this.panes[this.drag.index]
        return this.data.plane.names.map((_, row) => row).filter(row => inside(box.place(row), polygon))
    }

    // --- picks

    /** Pick these rows, or with Shift add them; a single one already picked is then removed. */
    pick(rows, adds = false) {
        let chosen = rows
        if (adds) {
            const before = new Set(this.picked)
            if (rows.length === 1 && before.has(rows[0])) before.delete(rows[0])
            else rows.forEach(row => before.add(row))
            chosen = [...before]
        }
        this.own = chosen.toSorted((a, b) => a - b)
        this.said.textContent = `Picked: ${this.own.length}`
        this.paint()
        clearTimeout(this.timer)
        const told = { rows: this.own, level: this.data.level, turn: ++this.turn }
        this.timer = setTimeout(() => this.tell('gesture', told), WAIT)
    }

    // --- keys

    /** The neuron where the arrows start: their last one, the first picked one, or the most important. */
    cursor() {
        if (this.hovered >= 0) return this.hovered
        if (this.last >= 0 && this.last < this.data.plane.names.length) return this.last
        const { weights } = this.pictures[0]
        return this.picked[0] ?? weights.indexOf(Math.max(...weights))
    }

    key(event) {
        const index = this.panes.findIndex(pane => pane.frame === document.activeElement)
        if (index < 0 || event.ctrlKey || event.metaKey || event.altKey) return
        const act = this.acts(index, event.shiftKey)[event.key]
        if (!act) return
        event.preventDefault()
        event.stopPropagation() // the arrows turn the pages of a lecture, too
        act()
    }

    acts(index, adds) {
        const picture = this.pictures[index]
        const clusters = () => [...picture.members.keys()].sort((a, b) =>
            picture.members.get(b).length - picture.members.get(a).length || a - b)
        const go = row => this.hover((this.last = row), index, true)
        const turn = (list, here, by) => list[(list.indexOf(here) + by + list.length) % list.length]
        const neuron = by => go(turn(clusters().flatMap(label => picture.members.get(label)), this.cursor(), by))
        const cluster = by => go(picture.members.get(turn(clusters(), picture.labels[this.cursor()], by))[0])
        return {
            ArrowRight: () => neuron(1),
            ArrowLeft: () => neuron(-1),
            ArrowDown: () => cluster(1),
            ArrowUp: () => cluster(-1),
            Enter: () => this.pick([this.cursor()], adds),
            ' ': () => this.pick(picture.members.get(picture.labels[this.cursor()]), adds),
            Escape: () => {
                const drew = this.drag?.path
                this.stop()
                if (!drew && this.picked.length) this.pick([])
            },
        }
    }

    // --- files

    /** Save one picture as seen, with its heading, and its origin at the foot. */
    file({ picture: key, format, stem }) {
        const index = Math.max(this.pictures.findIndex(picture => picture.key === key), 0)
        const picture = this.pictures[index], { scale } = this.data, { frame } = this.panes[index]
        const head = picture.name ? HEAD * scale : 0
        const width = frame.clientWidth, height = Math.round(head + frame.clientHeight + FOOT.height)
        const colours = this.shades
        const whole = pen => {
            if (head) pen.text(picture.name + picture.note, 4, 18 * scale, 15 * scale, colours.ink, { align: 'left' })
            draw(pen, picture, geometry(this.data.plane, width, frame.clientHeight, scale, head), colours, this.looks)
            this.data.signature.forEach((line, row) =>
                pen.text(line, 4, height - FOOT.height + FOOT.line * (row + 1) - 2, FOOT.text, colours.muted, { align: 'left' }))
        }
        if (format === 'svg') {
            const pen = new SvgPen(colours.font)
            whole(pen)
            saved(new Blob([pen.file(width, height, colours.paper, picture.alt)], { type: 'image/svg+xml' }), `${stem}.svg`)
            return
        }
        const canvas = document.createElement('canvas'), pen = sized(canvas, width, height, colours.font, SHARP)
        pen.context.fillStyle = colours.paper
        pen.context.fillRect(0, 0, width, height)
        whole(pen)
        canvas.toBlob(blob => saved(blob, `${stem}.png`))
    }
}

function saved(blob, file) {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(blob)
    link.download = file
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

function element(kind, name, words = '') {
    const made = document.createElement(kind)
    made.className = name
    made.textContent = words
    return made
}

/** A pen for a canvas, cleared and sized in px. */
function sized(canvas, width, height, font, ratio = window.devicePixelRatio || 1) {
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)]
    const context = canvas.getContext('2d')
    if (canvas.width !== across || canvas.height !== down) {
        canvas.width = across
        canvas.height = down
        canvas.style.width = `${width}px`
        canvas.style.height = `${height}px`
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    context.clearRect(0, 0, width, height)
    return new CanvasPen(context, font)
}

/** Whether a point is in a polygon: a ray from it crosses the border an odd number of times. */
function inside([x, y], polygon) {
    let odd = false
    polygon.forEach(([ax, ay], index) => {
        const [bx, by] = polygon[(index + 1) % polygon.length]
        if ((ay > y) !== (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax) odd = !odd
    })
    return odd
}
