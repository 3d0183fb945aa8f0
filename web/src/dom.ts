// Elements of the page.
// SPDX-License-Identifier: Apache-2.0 OR MIT

type Child = Node | string | null | undefined | false;

/** An element. Attributes that begin with `on` are listeners; a boolean sets or leaves out its attribute. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Record<string, unknown> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => !!child || child === ''));
  return element;
}

export function put(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((child): child is Node | string => !!child));
}

export const isStill = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/** A canvas in the device's pixels. Returns its context in CSS pixels, and its size. */
export function surface(canvas: HTMLCanvasElement): { c: CanvasRenderingContext2D; w: number; h: number } {
  const scale = Math.min(devicePixelRatio || 1, 2);
  const [w, height] = [canvas.clientWidth, canvas.clientHeight];
  const [pw, ph] = [Math.round(w * scale), Math.round(height * scale)];
  if (canvas.width !== pw || canvas.height !== ph) [canvas.width, canvas.height] = [pw, ph];
  const c = canvas.getContext('2d')!;
  c.setTransform(scale, 0, 0, scale, 0, 0);
  return { c, w, h: height };
}
