// The page of `saccade label`: doubtful labels one after the other; what is chosen is in the table at once.

import { $, element, percent } from "./dom.js";
import { Viewer } from "./viewer.js";

const viewer = new Viewer($("viewer"));
viewer.set({ map: false });
let work = null, at = 0, asked = 0;

async function ask(address, body) {
  const post = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(address, body === undefined ? {} : post);
  } catch {
    throw new Error("The server does not answer: is it still running?");
  }
  const answer = await response.json().catch(() => ({ detail: `the server failed (${response.status})` }));
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

// Do it, or say why it could not be done.
async function attempt(deed) {
  $("problem").hidden = true;
  try {
    return await deed();
  } catch (error) {
    $("problem").textContent = error.message;
    $("problem").hidden = false;
  }
}

const told = (answers) => answers.map((text, i) => {
  const { name, task } = work.questions[i];
  const said = task === "multi" ? text.split(";").filter(Boolean).join(", ") || "none of the labels" : text;
  return name ? `${name}: ${said}` : said;
}).join(" · ");

async function go(to) {
  at = Math.min(Math.max(to, 0), work.suspects.length - 1);
  const mine = ++asked;
  describe();
  $("progress").hidden = false;
  await attempt(async () => {
    const seen = await ask(`/api/suspects/${at}`);
    if (mine === asked) look(seen);
  });
  if (mine === asked) $("progress").hidden = true;
}

function describe() {
  const one = work.suspects[at];
  const sure = work.questions.every(({ task }) => task === "regression") ? "" : `, ${percent(one.doubt)} sure against the label${one.changed ? " that it had" : ""}`;
  const how = { train: ", which learnt from this label" }[one.source] ?? "";
  $("place").textContent = `${at + 1} of ${work.suspects.length}`;
  $("label").textContent = told(one.label);
  $("written").textContent = one.changed ? `corrected, and written to ${work.table}` : "";
  $("sure").textContent = `The model${how} says ${told(one.said)}${sure}.`;
  $("facts").textContent = `${one.image} · ${one.source}`;
  $("previous").disabled = at === 0;
  $("next").disabled = at === work.suspects.length - 1;
  $("undo").disabled = !work.can_undo;
  $("take").disabled = one.label.join() === one.said.join();
  const focused = document.activeElement?.dataset?.choice;
  $("questions").replaceChildren(...work.questions.map(question));
  if (focused) $("questions").querySelector(`[data-choice="${CSS.escape(focused)}"]`)?.focus();
}

function question({ name, task, classes }, i) {
  const legend = element("legend", { textContent: name || "Label" });
  return element("fieldset", {}, legend, task === "regression" ? number(i) : choices(task, classes, i));
}

function choices(task, classes, i) {
  return element("div", { className: "choices" }, ...classes.map((name, place) => {
    const key = i === 0 && place < 9 ? String(place + 1) : "";
    const button = element("button", { type: "button", className: "plain" }, element("kbd", { textContent: key, ariaHidden: "true" }), name);
    button.dataset.choice = `${i}/${name}`;
    button.setAttribute("aria-pressed", String(work.suspects[at].names[i].includes(name)));
    button.addEventListener("click", () => choose(i, name));
    return button;
  }));
}

function number(i) {
  const input = element("input", { type: "text", inputMode: "decimal", value: work.suspects[at].label[i], ariaLabel: work.questions[i].name || "Number" });
  const form = element("form", { className: "number" }, input, element("button", { className: "plain", textContent: "Write" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    write(work.suspects[at].label.with(i, input.value.trim()));
  });
  return form;
}

function choose(i, name) {
  const { label, names } = work.suspects[at];
  if (work.questions[i].task !== "multi") return write(label.with(i, name));
  const chosen = names[i].includes(name) ? names[i].filter((other) => other !== name) : [...names[i], name];
  return write(label.with(i, chosen.join(";") || ";"));
}

const write = (label) => attempt(async () => changed(await ask(`/api/suspects/${at}/label`, { label })));
const undo = () => attempt(async () => changed(await ask("/api/undo", {})));

function changed({ place, suspect, can_undo }) {
  work.suspects[place] = suspect;
  work.can_undo = can_undo;
  if (place === at) describe();
  else go(place);
}

function look(seen) {
  viewer.show(seen);
  viewer.canvas.setAttribute("aria-label", `${seen.image.name}, ${seen.boxes.length} boxes`);
  $("looked").hidden = !seen.boxes.length;
  $("map-switch").hidden = !seen.scores;
  $("layers").hidden = !seen.boxes.length && !seen.scores;
  $("crops").replaceChildren(...seen.boxes.map((box, i) => {
    const button = element("button", { type: "button", className: "plain", textContent: `Box ${i + 1}` });
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => viewer.light(i));
    for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => viewer.light(-1));
    button.addEventListener("click", () => viewer.goTo(box));
    return element("li", {}, button);
  }));
}

const KEYS = {
  n: () => go(at + 1), p: () => go(at - 1), ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1),
  m: () => write(work.suspects[at].said), u: undo,
};
window.addEventListener("keydown", (event) => {
  const busy = event.target.matches("input[type=text]") || (event.target === viewer.canvas && event.key.startsWith("Arrow"));
  if (busy || !work?.suspects.length || event.ctrlKey || event.metaKey || event.altKey) return;
  const name = /^[1-9]$/.test(event.key) && work.questions[0].classes[event.key - 1];
  const deed = name ? () => choose(0, name) : KEYS[event.key];
  if (!deed) return;
  event.preventDefault();
  deed();
});
$("previous").addEventListener("click", KEYS.p);
$("next").addEventListener("click", KEYS.n);
$("take").addEventListener("click", KEYS.m);
$("undo").addEventListener("click", undo);
$("nearer").addEventListener("click", () => viewer.zoom(1.6));
$("farther").addEventListener("click", () => viewer.zoom(1 / 1.6));
$("whole").addEventListener("click", () => viewer.fit());
$("show-boxes").addEventListener("change", (e) => viewer.set({ boxes: e.target.checked }));
$("show-map").addEventListener("change", (e) => viewer.set({ map: e.target.checked }));
$("viewer").viewer = viewer; // for who looks into the page

await attempt(async () => {
  work = await ask("/api/work");
  $("model").textContent = work.table;
  $("result").hidden = !work.suspects.length;
  $("invitation").hidden = !!work.suspects.length;
  $("undo").hidden = !work.suspects.length;
  if (work.suspects.length) await go(0);
});
