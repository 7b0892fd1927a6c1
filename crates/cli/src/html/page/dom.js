// Elements, made of names of ours and texts of anybody's. Nothing here reads markup from a text.

const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {Node | string | null | undefined} Child */

/**
 * @param {Element} made
 * @param {Record<string, string | number | boolean>} attributes
 * @param {Child[]} children
 */
function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, '');
    else if (value !== false) made.setAttribute(name, String(value));
  }
  for (const child of children) if (child) made.append(child);
}

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number | boolean>} attributes
 * @param {Child[]} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  fill(made, attributes, children);
  return made;
}

/**
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number | boolean>} attributes
 * @param {Child[]} children
 * @returns {SVGElementTagNameMap[Name]}
 */
export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  fill(made, attributes, children);
  return /** @type {SVGElementTagNameMap[Name]} */ (made);
}

/**
 * @param {string} id
 * @returns {HTMLElement | null}
 */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * Puts a text where another may stand; what says it already is left alone.
 * @param {Element} place
 * @param {string} text
 */
export function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/**
 * A button that does something.
 * @param {string} text
 * @param {() => void} act
 * @param {Record<string, string>} attributes
 * @returns {HTMLButtonElement}
 */
export function button(text, act, attributes = {}) {
  const made = el('button', { type: 'button', ...attributes }, text);
  made.addEventListener('click', act);
  return made;
}
