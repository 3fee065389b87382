"use strict";
// Filters the runs, puts two beside each other, and, where the page is served, follows what runs
// now. All that runs say is set as text.
(() => {
  const all = (what, from = document) => Array.from(from.querySelectorAll(what));
  const byId = (id) => document.getElementById(id);
  const rows = all("#runs tbody tr");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  function filter() {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = new Set(all("#states input").filter((b) => b.checked).map((b) => b.dataset.state));
    let shown = 0;
    rows.forEach((row, n) => {
      const fits = states.has(row.dataset.state) && words.every((word) => texts[n].includes(word));
      row.hidden = !fits;
      shown += fits;
    });
    byId("shown").textContent = shown === rows.length ? "" : `${shown} of ${rows.length} shown`;
  }
  byId("filter").addEventListener("input", filter);
  for (const box of all("#states input")) box.addEventListener("change", filter);
  byId("tools").hidden = false;

  // Two runs beside each other: what differs is tinted, what is the same is left out.
  let picked = [];
  function beside() {
    const place = byId("beside");
    place.replaceChildren();
    place.hidden = picked.length !== 2;
    if (picked.length !== 2) return;
    const [one, other] = picked.map((box) => JSON.parse(rows[Number(box.dataset.pick)].dataset.run));
    const table = make("table"), body = make("tbody"), head = make("tr");
    for (const text of ["", one.run, other.run]) head.append(make("th", text));
    const line = (name, a, b) => {
      const row = make("tr", undefined, a === b ? "" : "differs");
      for (const text of [name, a, b]) row.append(make("td", text));
      body.append(row);
    };
    const differing = (name, a, b) => {
      for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
        if (a[key] !== b[key]) line(`${name}${key}`, a[key] ?? "", b[key] ?? "");
      }
    };
    line("verdict", one.verdict, other.verdict);
    differing("", one.settings, other.settings);
    line("lost", one.lost, other.lost);
    for (let n = 0; n < Math.max(one.findings.length, other.findings.length); n++) {
      line(`finding ${n + 1}`, one.findings[n] ?? "", other.findings[n] ?? "");
    }
    differing("claim ", one.claims, other.claims);
    line("faults", one.faults.join("; "), other.faults.join("; "));
    const thead = make("thead");
    thead.append(head);
    table.append(thead, body);
    const scroll = make("div", undefined, "scroll");
    scroll.append(table);
    place.append(make("h2", "Beside each other"), scroll);
  }
  for (const box of all("[data-pick]")) {
    box.hidden = false;
    box.addEventListener("change", () => {
      picked = picked.filter((other) => other !== box);
      if (box.checked) picked.push(box);
      if (picked.length > 2) picked.shift().checked = false;
      beside();
      if (picked.length === 2) byId("beside").scrollIntoView({ block: "nearest" });
    });
  }

  // What runs now.
  if (document.body.dataset.served === undefined) return;
  let before = null;
  async function follow() {
    let runs;
    try {
      runs = await (await fetch("live.json", { cache: "no-store" })).json();
    } catch {
      byId("live").replaceChildren(make("p", "The server does not answer."));
      return;
    }
    const names = runs.map((run) => run.name).join(" ");
    if (before !== null && names !== before) location.reload();
    before = names;
    byId("running").hidden = runs.length === 0;
    byId("live").replaceChildren(...runs.map((run) => {
      const box = make("div");
      box.append(make("div", run.line, "line"), make("small", `${run.name}: ${run.counted}`));
      const acts = make("ol");
      acts.reversed = true;
      for (const act of run.acts) acts.append(make("li", act));
      box.append(acts);
      return box;
    }));
  }
  follow();
  setInterval(follow, 1000);
})();
