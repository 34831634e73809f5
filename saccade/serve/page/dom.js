// What both pages say things with.

export const $ = (id) => document.getElementById(id);
export const percent = (share) => `${(Math.floor(1000 * share) / 10).toFixed(1)}%`; // only what is certain is 100%

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}
