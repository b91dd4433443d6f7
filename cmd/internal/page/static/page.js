// What a page does with a script, and can do without: times in the viewer's zone, what has changed
// without loading anew, charts. Nothing here knows what is shown.
"use strict";

// Times: the server writes them as its own clock shows them; here they are the viewer's, with the
// server's beside.
const today = new Intl.DateTimeFormat("sv", { dateStyle: "short" });
const clock = new Intl.DateTimeFormat("sv", { timeStyle: "medium" });
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    if (time.dataset.server) continue;
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    time.dataset.server = time.textContent;
    const day = today.format(at);
    time.textContent = (day === today.format(new Date()) ? "" : day + " ") + clock.format(at);
    time.title = time.dataset.server + " on the server";
  }
}

// Becomes makes an element like another one by as few changes as possible: what somebody has selected,
// opened, scrolled or is typing in stays.
function becomes(old, wanted) {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName || old.id !== wanted.id) {
    old.replaceWith(wanted.cloneNode(true));
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    return;
  }
  if (old.hasAttribute("data-keep") || old.matches("form") && old.contains(document.activeElement)) return;
  if (old.nodeName === "TIME" && old.dateTime === wanted.dateTime) return;
  if (old.nodeName === "TIME") delete old.dataset.server;
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open" && name !== "title") old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const atEnd = old.matches("pre") && old.scrollTop + old.clientHeight >= old.scrollHeight - 4;
  const now = [...old.childNodes], then = [...wanted.childNodes];
  for (let i = 0; i < then.length; i++) {
    if (i < now.length) becomes(now[i], then[i]);
    else old.append(then[i].cloneNode(true));
  }
  for (const extra of now.slice(then.length)) extra.remove();
  if (atEnd) old.scrollTop = old.scrollHeight;
}

// Live: the server sends what this address shows, as it changes. A page that nobody looks at asks for nothing, and
// neither does one of a job that has ended.
const live = document.querySelector("[data-live]");
const stale = document.querySelector("#stale");
let source = null;
function listen() {
  if (!live || document.hidden || source || live.querySelector("[data-rests]")) return;
  const address = new URL(location.href);
  address.hash = "";
  source = new EventSource(address);
  source.onmessage = (event) => {
    stale.hidden = true;
    const wanted = live.cloneNode(false);
    wanted.innerHTML = event.data;
    becomes(live, wanted);
    localise(live);
    draw();
    if (live.querySelector("[data-rests]")) rest();
  };
  source.onopen = () => { stale.hidden = true; };
  source.onerror = () => {
    stale.hidden = false;
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries it again
    source = null; // it was refused: too many look at pages, say
    setTimeout(listen, 5000);
  };
}
function rest() {
  if (source) source.close();
  source = null;
}
document.addEventListener("visibilitychange", () => document.hidden ? rest() : listen());
addEventListener("pagehide", rest);
addEventListener("pageshow", listen);

// Charts: each tells where its numbers are. They are asked for again every fifteen seconds.
const drawn = new Map();
const minute = new Intl.DateTimeFormat("sv", { timeStyle: "short" });
const day = new Intl.DateTimeFormat("sv", { month: "2-digit", day: "2-digit", hour: "2-digit" });
function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
async function chart(box) {
  const answer = await fetch(box.dataset.chart, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 200));
  const told = await answer.json();
  const data = [told.at, ...told.series.map((one) => one.values)];
  const width = box.clientWidth, former = drawn.get(box);
  if (former && former.width === width) {
    former.setData(data);
    return;
  }
  if (former) former.destroy();
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  drawn.set(box, new uPlot({
    width, height: 140, cursor: { y: false }, legend: { live: true },
    scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
    axes: [{ ...axis, space: 90, values: (_, times) => times.map((at) => told.at.at(-1) - told.at[0] > 90000 ? day.format(new Date(at * 1000)) : minute.format(new Date(at * 1000))) }, { ...axis, size: 44 }],
    series: [{ value: (_, at) => at == null ? "" : clock.format(new Date(at * 1000)) }, ...told.series.map((one) => ({
      label: one.name, stroke: colour("--" + one.colour), fill: colour("--" + one.colour) + "22", width: 1.5, points: { show: false },
    }))],
  }, data, box));
}
let asked = 0;
function draw(again) {
  if (typeof uPlot === "undefined" || document.hidden || !again && Date.now() - asked < 15000) return;
  asked = Date.now();
  for (const box of document.querySelectorAll("[data-chart]")) {
    chart(box).catch((err) => { if (!drawn.has(box)) box.textContent = "The chart could not be drawn: " + err.message; });
  }
}
let resized = 0;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => draw(true), 200); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [, one] of drawn) one.destroy();
  drawn.clear();
  draw(true);
});

// A filter is applied as soon as something is chosen; what is typed waits for Enter.
document.addEventListener("change", (event) => {
  if (event.target.matches("form.filter select, form.filter input[type=checkbox]")) event.target.form.requestSubmit();
});
// "/" leads to the field for a job's id, as in many programs.
document.addEventListener("keydown", (event) => {
  const field = document.querySelector("#find");
  if (event.key === "/" && field && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName)) {
    event.preventDefault();
    field.focus();
  }
});

localise(document);
for (const pre of document.querySelectorAll("pre.output")) pre.scrollTop = pre.scrollHeight;
listen();
draw(true);
