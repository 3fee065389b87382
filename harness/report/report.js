"use strict";
// What a script adds to the page: one view for all plots, a cursor, marks, and copying. All text
// that it shows is set as text. It reads nothing but the page and asks nobody for anything.
(() => {
  const WIDTH = 10000, LEAST = 4, SVG = "http://www.w3.org/2000/svg";
  const all = (what, from = document) => Array.from(from.querySelectorAll(what));
  const byId = (id) => document.getElementById(id);
  const scaled = all("svg.x"), plots = all("svg.plot"), readout = byId("readout");
  const from = Number(byId("shared").dataset.from), to = Number(byId("shared").dataset.to);
  const perUnit = (to - from) / WIDTH; // seconds
  const timeAt = (x) => from + x * perUnit;
  const unitsAt = (s) => (s - from) / perUnit;
  let view = { from: 0, width: WIDTH };
  const cluster = byId("cluster"), moment = byId("moment");
  let now = cluster ? Number(cluster.dataset.now) : 0;

  // Which part of the run all plots show.
  function look(left, width) {
    width = Math.min(WIDTH, Math.max(LEAST, width));
    view = { from: Math.min(WIDTH - width, Math.max(0, left)), width };
    for (const svg of scaled) {
      svg.setAttribute("viewBox", `${view.from} 0 ${view.width} ${svg.getAttribute("height")}`);
    }
    ticks();
    place();
    if (moment) {
      moment.min = view.from;
      moment.max = view.from + view.width;
      moment.step = view.width / WIDTH;
      moment.value = now;
    }
  }

  // Round times for this view, on the axes and in the grid.
  function ticks() {
    const least = (view.width * perUnit) / 12;
    let step = 10 ** Math.floor(Math.log10(least));
    step *= [1, 2, 5, 10].find((n) => n * step >= least) || 10;
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const first = Math.ceil(timeAt(view.from) / step - 1e-9), found = [];
    for (let n = first; unitsAt(n * step) <= view.from + view.width + 1e-6; n++) found.push(n * step);
    byId("grid").replaceChildren(...found.map((s) => upright(unitsAt(s), "grid")));
    for (const svg of all(".axis svg.plot")) {
      all("text", svg).forEach((t) => t.remove());
      for (const s of found) {
        const text = document.createElementNS(SVG, "text");
        text.textContent = `${s.toFixed(digits)} s`;
        text.setAttribute("class", "tick");
        text.setAttribute("y", 14);
        text.dataset.x = unitsAt(s);
        text.dataset.w = Math.max(view.from + view.width - unitsAt(s), 1);
        svg.append(text);
      }
    }
  }

  function upright(x, kind) {
    const line = document.createElementNS(SVG, "line");
    for (const [name, value] of [["x1", x], ["x2", x], ["y1", 0], ["y2", 1000], ["class", kind]]) {
      line.setAttribute(name, value);
    }
    return line;
  }

  // Words stay at their place, and are shown where they fit; what is folded has no length yet.
  const labels = all(".plot text.seg, .plot text.fault"), lengths = new Map();
  function place() {
    const wide = (plots.find((p) => p.clientWidth) || { clientWidth: 640 }).clientWidth;
    const pixels = wide / view.width;
    for (const text of labels) if (!lengths.get(text)) lengths.set(text, text.getComputedTextLength());
    for (const text of [...labels, ...all(".plot text.tick")]) {
      const x = Number(text.dataset.x), width = Number(text.dataset.w);
      const from = Math.max(x, view.from), room = (x + width - from) * pixels;
      const inside = from <= view.from + view.width && x + width >= view.from;
      const fits = !width || (lengths.get(text) || text.textContent.length * 6.4) + 6 <= room;
      text.setAttribute("x", `${((from - view.from) * 100) / view.width}%`);
      text.setAttribute("visibility", inside && fits ? "visible" : "hidden");
    }
  }

  const doing = {
    "zoom-in": () => look(view.from + view.width / 4, view.width / 2),
    "zoom-out": () => look(view.from - view.width / 2, view.width * 2),
    earlier: () => look(view.from - view.width / 2, view.width),
    later: () => look(view.from + view.width / 2, view.width),
    whole: () => { mark([]); look(0, WIDTH); },
  };
  for (const button of all("[data-do]")) button.addEventListener("click", doing[button.dataset.do]);

  // The cursor, and a zoom into what it is dragged over.
  const line = byId("cursor-line"), chosen = byId("chosen");
  let pressed = null;
  const unitsOf = (plot, event) => {
    const box = plot.getBoundingClientRect();
    return view.from + ((event.clientX - box.left) * view.width) / box.width;
  };
  for (const plot of plots) {
    plot.addEventListener("pointermove", (event) => {
      const x = unitsOf(plot, event), title = event.target.querySelector && event.target.querySelector("title");
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      readout.textContent = `${timeAt(x).toFixed(3)} s${title ? `   ${title.textContent}` : ""}`;
      if (pressed !== null) {
        chosen.setAttribute("x", Math.min(pressed, x));
        chosen.setAttribute("width", Math.abs(x - pressed));
      }
    });
    plot.addEventListener("pointerdown", (event) => {
      if (event.button === 0) pressed = unitsOf(plot, event);
    });
    plot.addEventListener("pointerleave", () => { line.setAttribute("x1", -9); line.setAttribute("x2", -9); });
    plot.addEventListener("dblclick", () => look(0, WIDTH));
  }
  addEventListener("pointerup", (event) => {
    const from = Number(chosen.getAttribute("x")), width = Number(chosen.getAttribute("width"));
    if (pressed !== null && width > view.width / 100) {
      look(from, width);
      event.preventDefault();
    } else if (pressed !== null) {
      show(pressed);
    }
    pressed = null;
    chosen.setAttribute("width", 0);
  });

  // The cluster at a moment. Each part of the picture carries its changes: [place, value] in order;
  // a cut carries [from, to].
  const LOOKS = ["unseen", "master", "slave", "acting", "isolated", "leader", "follower", "answers",
    "silent", "down", "held"];
  const carried = (name) => all(`[data-${name}]`, cluster || document.createElement("p"))
    .map((part) => [part, JSON.parse(part.dataset[name])]);
  const looks = carried("as"), words = carried("is"), cuts = carried("at");
  const valueAt = (changes, x, first) => changes.reduce((was, [at, value]) => (at <= x ? value : was), first);

  function show(x) {
    if (!cluster) return;
    now = Math.min(WIDTH, Math.max(0, x));
    for (const [part, changes] of looks) {
      part.setAttribute("class", `node ${LOOKS[valueAt(changes, now, 0)]}`);
    }
    for (const [part, changes] of words) part.textContent = valueAt(changes, now, "");
    for (const [part, spans] of cuts) {
      const cut = spans.some(([begin, end]) => begin <= now && now < end);
      part.setAttribute("visibility", cut ? "visible" : "hidden");
    }
    byId("when").textContent = `${timeAt(now).toFixed(2)} s`;
    for (const end of ["x1", "x2"]) byId("now-line").setAttribute(end, now);
    if (moment) moment.value = now;
  }
  if (moment) {
    const events = moment.dataset.events.split(" ").filter(Boolean).map(Number);
    moment.addEventListener("input", () => show(Number(moment.value)));
    for (const button of all("[data-step]")) {
      button.addEventListener("click", () => {
        const back = button.dataset.step === "-1";
        const next = back ? events.findLast((x) => x < now - 1) : events.find((x) => x > now + 1);
        if (next !== undefined) show(next);
      });
    }
    byId("slider").hidden = false;
  }

  // Where an anomaly's operations are.
  function mark(places) {
    byId("marks").replaceChildren(...places.map((x) => upright(x, "mark")));
  }
  for (const link of all("a.show")) {
    link.addEventListener("click", () => {
      const places = link.dataset.marks.split(" ").filter(Boolean).map(Number);
      mark(places);
      readout.textContent = "Dashed: the operations of this anomaly.";
    });
  }

  // What a link leads to may be folded.
  function unfold() {
    const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  }
  addEventListener("hashchange", unfold);

  for (const button of all("button.copy")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.previousElementSibling.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
        button.textContent = "selected";
      }
    });
  }
  if (byId("toolbar")) byId("toolbar").hidden = false;
  for (const more of all("details.more")) more.addEventListener("toggle", place);
  addEventListener("resize", place);
  look(0, WIDTH);
  show(now);
  if (location.hash) unfold();
})();
