// A level's neurons in one element, drawn once per grouping. A neuron is a row, 0 to m - 1, the same in every picture: what
// is hovered over, encircled or picked in one shows in all at once, and the server gets it when the gesture has ended. The
// server says what to draw and where; this file draws it as SVG, on the page and for files.

const SPACE = { left: 28, right: 8, top: 6, bottom: 24 } // px around the frame, for the axes
const PADDED = 1.06 // the frame's size as a multiple of its content's
const OUT = 7 // px, the stroke of a mark outside the frame
const NAMED = 12 // most ringed neurons with names
const NEAR = { mouse: 10, touch: 24 } // most px between a pointer and the neuron it means
const MOVED = 5 // px of movement that make a press more than a click
const WAIT = 160 // ms from a gesture to telling the server: a second one may follow
const EDGE = 1.6 // px, a mark's outline, in its network's colour
const OTHER = 6, ALONE = 7 // kinds of neurons; 0 is the densest cluster, 1 to 5 have a hue

const figures = new WeakMap() // the component's element -> its figure
const measure = document.createElement('canvas').getContext('2d') // reads colours, measures words and areas

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

/** Writes parts of an SVG drawing; in a file, marks have tooltips. */
class Pen {
    parts = []

    constructor(file = false) {
        this.file = file
    }
    line(points, colour, width, { closed = false, fill = 'none', dash = 'none' } = {}) {
        const d = points.map(([x, y], index) => `${index ? 'L' : 'M'}${short(x)} ${short(y)}`).join('') + (closed ? 'Z' : '')
        this.parts.push(`<path d="${d}" fill="${fill}" stroke="${colour}" stroke-width="${short(width)}" stroke-dasharray="${dash}"/>`)
    }
    /** Hairlines from a centre to several ends, as one path. */
    spokes([x, y], ends, colour, width) {
        const d = ends.map(([ex, ey]) => `M${short(x)} ${short(y)}L${short(ex)} ${short(ey)}`).join('')
        this.parts.push(`<path d="${d}" fill="none" stroke="${colour}" stroke-width="${short(width)}"/>`)
    }
    mark(shape, x, y, size, fill, edge, width, opacity = 1, tip = '') {
        const style = `fill="${fill}" stroke="${edge}" stroke-width="${short(width)}"${opacity < 1 ? ` opacity="${opacity}"` : ''}`
        const points = corners(shape, x, y, size), title = tip && `<title>${escaped(tip)}</title>`
        this.parts.push(points
            ? `<polygon points="${points.map(point => point.map(short).join(',')).join(' ')}" ${style}>${title}</polygon>`
            : `<circle cx="${short(x)}" cy="${short(y)}" r="${short(size / 2)}" ${style}>${title}</circle>`)
    }
    text(words, x, y, size, colour, { anchor = 'middle', turned = false, halo = 'none', weight = 400 } = {}) {
        const place = turned ? `transform="translate(${short(x)} ${short(y)}) rotate(-90)"` : `x="${short(x)}" y="${short(y)}"`
        this.parts.push(`<text ${place} font-size="${short(size)}" font-weight="${weight}" fill="${colour}" text-anchor="${anchor}" ` +
            `stroke="${halo}" stroke-width="${short(size / 4)}" paint-order="stroke">${escaped(words)}</text>`)
    }
}

/** What an act draws. */
function written(act, file = false) {
    const pen = new Pen(file)
    act(pen)
    return pen.parts.join('')
}

const short = number => String(Math.round(number * 100) / 100)
const escaped = text => text.replace(/[&<>"]/g, sign => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign])

// --- one picture ----------------------------------------------------------------------------------

/** One grouping of the neurons. */
class Picture {
    constructor(shared, own) {
        Object.assign(this, own, own.marks)
        this.shared = shared
        this.members = new Map(this.labels.map(label => [label, []]))
        this.labels.forEach((label, row) => this.members.get(label).push(row))
    }

    /** A neuron's tooltip, in lines. */
    tip(row) {
        const { off, names } = this.shared, label = this.labels[row], count = this.members.get(label).length
        return [
            `neuron ${names[row]}${off.has(row) ? ', outside the frame' : ''}`,
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
        pen.spokes(box.at(...picture.middles[label]), rows.map(box.place), colour, (kind === 0 ? 0.8 : 1.2) * scale)
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
    const tip = pen.file ? picture.tip(row).join(', ') : ''
    pen.mark(shared.shapes[parent], x, y, size, fill, edge, EDGE * box.scale, opacity, tip)
}

function ring(pen, picture, box, colours, row, wider, width) {
    const [x, y] = box.place(row)
    pen.mark('circle', x, y, (picture.sizes[row] + wider) * box.scale, 'none', colours.accent, width * box.scale)
}

/** Draw a ringed neuron's name, above it if there is room. */
function name(pen, picture, box, colours, row) {
    const [x, y] = box.place(row), size = picture.shared.text * box.scale
    const away = (picture.sizes[row] / 2 + 8) * box.scale, above = y - away - size > box.y0
    const words = picture.shared.names[row]
    pen.text(words, x, above ? y - away : y + away + 0.7 * size, size, colours.accent, { halo: colours.paper, weight: 600 })
}

/** In the pictures other than the one with the tooltip: the cluster of the same neuron. */
function note(pen, picture, box, colours, row) {
    const [x, y] = box.place(row), size = picture.shared.text * box.scale, label = picture.labels[row]
    const count = picture.members.get(label).length
    const words = count > 1 ? `group ${label}, ${count} members` : 'alone'
    const away = (picture.sizes[row] / 2 + 9) * box.scale, above = y - away - 1.6 * size > box.y0
    measure.font = `${size}px ${colours.font}`
    const width = measure.measureText(words).width + size, height = 1.5 * size
    const left = Math.min(Math.max(x - width / 2, box.x0), Math.max(box.x0 + box.side - width, box.x0))
    const top = above ? y - away - height : y + away
    pen.line([[left, top], [left + width, top], [left + width, top + height], [left, top + height]],
        colours.muted, box.scale, { closed: true, fill: colours.paper })
    pen.text(words, left + size / 2, top + 1.08 * size, size, colours.ink, { anchor: 'start' })
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
        this.root.addEventListener('keydown', event => this.key(event))
        document.fonts.ready.then(() => this.paint())
    }

    remove() {
        clearTimeout(this.timer)
        this.observer.disconnect()
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
        frame.innerHTML = '<svg><g class="base"></g><g class="over"></g></svg>'
        frame.tabIndex = 0
        frame.setAttribute('role', 'img')
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
        const [drawing, base, over] = ['svg', '.base', '.over'].map(part => frame.querySelector(part))
        return { whole, heading, frame, words, drawing, base, over }
    }

    // --- drawing

    /** The theme's colours, chosen by the page's background. */
    colours() {
        const style = getComputedStyle(this.root)
        measure.fillStyle = style.getPropertyValue('--st-background-color').trim() || '#fff'
        const [r, g, b] = [1, 3, 5].map(at => parseInt(measure.fillStyle.slice(at, at + 2), 16))
        const colours = this.data.colours[0.3 * r + 0.6 * g + 0.1 * b < 128 ? 'dark' : 'light']
        return { ...colours, fills: [colours.ink, ...colours.clusters, colours.grey, colours.paper], font: style.fontFamily }
    }

    get looks() {
        return { picked: this.picked, marked: this.data.marked }
    }

    /** Draw every picture in its column's size. */
    paint() {
        if (!this.data) return
        this.width = this.root.clientWidth
        this.shades = this.colours()
        this.panes.forEach((pane, index) => {
            const { clientWidth: width, clientHeight: height } = pane.frame
            pane.box = geometry(this.data.plane, width, height, this.data.scale)
            pane.drawing.setAttribute('viewBox', `0 0 ${width} ${height}`)
            pane.base.innerHTML = written(pen => draw(pen, this.pictures[index], pane.box, this.shades, this.looks))
        })
        this.paintOver()
    }

    /** Draw what follows the pointer: the neuron with its cluster's lines in every picture, and the lasso. */
    paintOver() {
        this.panes.forEach((pane, index) => { pane.over.innerHTML = written(pen => this.drawOver(pen, pane.box, index)) })
    }

    drawOver(pen, box, index) {
        const picture = this.pictures[index], { drag, shades, hovered } = this
        for (const row of drag?.rows ?? []) ring(pen, picture, box, shades, row, 4, 1.5)
        if (drag?.path && drag.index === index)
            pen.line(this.outline(), shades.accent, 1.5, { closed: true, fill: `${shades.accent}22`, dash: '5 4' })
        if (hovered < 0 || drag?.path) return
        const label = picture.labels[hovered], members = picture.members.get(label)
        if (members.length > 1) pen.spokes(box.at(...picture.middles[label]), members.map(box.place), shades.accent, box.scale)
        for (const member of members) mark(pen, picture, box, shades, member)
        ring(pen, picture, box, shades, hovered, 7, 2.5)
        if (index !== this.over) note(pen, picture, box, shades, hovered)
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
        const area = new Path2D(`M${this.outline().map(point => point.join(' ')).join('L')}Z`), { box } = this.panes[this.drag.index]
        return this.data.plane.names.map((_, row) => row).filter(row => measure.isPointInPath(area, ...box.place(row), 'evenodd'))
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
        const importance = this.pictures[0].importance.map(Number)
        return this.picked[0] ?? importance.indexOf(Math.max(...importance))
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
}

function element(kind, name, words = '') {
    const made = document.createElement(kind)
    made.className = name
    made.textContent = words
    return made
}
