"use strict";
// A grid is one stop of the Tab key; arrow keys, Home and End move within it (ARIA Authoring Practices, "Grid").
for (const table of document.querySelectorAll("table.grid")) {
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.querySelector("a")));
  const links = rows.flat().filter(Boolean);
  const stop = (link) => {
    for (const other of links) other.tabIndex = other === link ? 0 : -1;
  };
  if (!links.length) continue;
  table.setAttribute("role", "grid");
  // What is looked for in a calendar is the newest night, which may lie beyond a narrow window.
  const newest = table.querySelector("[data-newest]");
  stop(newest ?? links[0]);
  const box = newest?.closest(".scroll");
  if (box) box.scrollLeft += Math.max(0, newest.getBoundingClientRect().right - box.getBoundingClientRect().right + 8);
  table.addEventListener("focusin", (event) => {
    if (links.includes(event.target)) stop(event.target);
  });
  table.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.shiftKey || !links.includes(event.target)) return;
    const y = rows.findIndex((row) => row.includes(event.target));
    const x = rows[y].indexOf(event.target);
    const column = rows.map((row) => row[x]);
    const next = {
      ArrowRight: () => rows[y].slice(x + 1).find(Boolean),
      ArrowLeft: () => rows[y].slice(0, x).findLast(Boolean),
      ArrowDown: () => column.slice(y + 1).find(Boolean),
      ArrowUp: () => column.slice(0, y).findLast(Boolean),
      Home: () => (event.ctrlKey ? links[0] : rows[y].find(Boolean)),
      End: () => (event.ctrlKey ? links.at(-1) : rows[y].findLast(Boolean)),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    next()?.focus();
  });
}
// A list with a filter shows the entries that have its text.
const filter = document.getElementById("filter");
filter?.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  for (const entry of document.querySelectorAll(".list > li"))
    entry.hidden = !entry.textContent.toLowerCase().includes(wanted);
});
