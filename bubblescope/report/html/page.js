// Starts the page: the colours at once, the timeline when it is unpacked.

const THEMES = ["light", "dark"];

function startTheme() {
  const toggle = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const current = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  const say = () => { toggle.textContent = current() === "dark" ? "Light colours" : "Dark colours"; };
  toggle.addEventListener("click", () => {
    document.documentElement.dataset.theme = THEMES[1 - THEMES.indexOf(current())];
    say();
  });
  dark.addEventListener("change", say);
  toggle.hidden = false;
  say();
}

async function start() {
  startTheme();
  if (!document.getElementById("chart")) return;
  const scene = JSON.parse(await unpacked("scene"));
  scene.levels = scene.levels.map(readLevel);
  startTimeline(scene);
  performance.mark("usable");
}

start().catch((error) => {
  document.getElementById("trouble").hidden = false;
  throw error;
});
