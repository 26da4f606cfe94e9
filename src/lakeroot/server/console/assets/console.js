// What is pleasant but not needed: every page works without this file.
"use strict";

const search = document.getElementById("q");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "/" && !typing && search) {
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "Escape" && typing) {
    typing.blur();
  } else if (!typing && (event.key === "n" || event.key === "p")) {
    const link = document.querySelector(`.pager a[rel=${event.key === "n" ? "next" : "prev"}]`);
    if (link) link.click();
  }
});

for (const snippet of document.querySelectorAll(".snippet")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(snippet.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  snippet.append(button);
}

for (const button of document.querySelectorAll("button[data-confirm]")) {
  button.addEventListener("click", (event) => {
    if (!window.confirm(button.dataset.confirm)) event.preventDefault();
  });
}

const slider = document.getElementById("at");
if (slider) {
  const commits = new Map();
  for (const row of document.querySelectorAll("tr[data-version]")) commits.set(row.dataset.version, row);
  const chosen = document.getElementById("chosen");
  const then = document.getElementById("then");
  const tables = document.getElementById("then-tables");
  let waiting = 0;

  const names = (found) => found.tables.map((one) => one.id.at(-1)).concat(
    found.namespaces.map((one) => `${one.id.at(-1)} (${one.tables} ${one.tables === 1 ? "table" : "tables"})`),
  );

  const look = async (version) => {
    const answer = await fetch(`/console/catalog.json?at=${version}`);
    if (!answer.ok || slider.value !== version) return;
    const found = names(await answer.json());
    tables.hidden = false;
    tables.textContent = found.length ? `At the root: ${found.join(", ")}` : "The catalog was empty.";
  };

  const show = () => {
    const version = slider.value;
    chosen.textContent = version;
    const row = commits.get(version);
    then.hidden = !row;
    then.textContent = row ? [...row.cells].slice(1, 4).map((cell) => cell.textContent.trim().replace(/\s+/g, " ")).filter(Boolean).join(" · ") : "";
    for (const line of document.querySelectorAll(".lanes .column")) {
      line.classList.toggle("chosen", line.dataset.version === version);
    }
  };

  slider.addEventListener("input", () => {
    show();
    clearTimeout(waiting);
    waiting = setTimeout(look, 150, slider.value);
  });
  show();
}
