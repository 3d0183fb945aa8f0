// Content security policies of the site's pages.
// SPDX-License-Identifier: Apache-2.0 OR MIT
import { createHash } from 'node:crypto';

const SELF = "script-src 'self' 'wasm-unsafe-eval'HASHES; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src 'self'; frame-src 'self'";
const of = (sources) => `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; ${sources}; base-uri 'none'; form-action 'none'">`;

/** Policy of our own pages: nothing but files of the site. */
export const POLICY = of(SELF.replace('HASHES', ''));

/** A page of another tool with a policy: files of the site, the scripts that it holds by their hashes, and styles in the page. */
export function withPolicy(html) {
  const scripts = [...html.matchAll(/<script(?![^>]*\bsrc=)(?![^>]*application\/json)[^>]*>([\s\S]*?)<\/script>/g)].map(([, text]) => text);
  const hashes = scripts.map((text) => ` 'sha256-${createHash('sha256').update(text).digest('base64')}'`);
  const policy = of(SELF.replace('HASHES', [...new Set(hashes)].join('')).replace("style-src 'self'", "style-src 'self' 'unsafe-inline'"));
  return html.replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, '').replace(/<head>/, `<head>${policy}`);
}
