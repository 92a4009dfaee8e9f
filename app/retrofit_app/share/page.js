// Draws the figures in the reader's theme; on paper always in the light one, as wide as the paper.
const dark = matchMedia("(prefers-color-scheme: dark)");
const figures = [...document.querySelectorAll(".plot")];
const both = figures.map((plot) => JSON.parse(plot.nextElementSibling.textContent));
let printing = false;

function draw() {
  document.documentElement.classList.toggle("printing", printing);
  figures.forEach((plot, index) => {
    const { data, layout } = both[index][dark.matches && !printing ? "dark" : "light"];
    Plotly.react(plot, data, { ...layout, width: plot.clientWidth }, CONFIG);
  });
}

draw();
dark.addEventListener("change", draw);
addEventListener("resize", () => requestAnimationFrame(draw));
addEventListener("beforeprint", () => { printing = true; draw(); });
addEventListener("afterprint", () => { printing = false; draw(); });
