// A notebook as HTML: its text, its code, and what its cells gave.
// SPDX-License-Identifier: Apache-2.0 OR MIT

const joined = (text) => (Array.isArray(text) ? text.join('') : text ?? '');
const escape = (text) => text.replace(/[&<>"]/g, (mark) => `&#${mark.charCodeAt(0)};`);
const plain = (text, kind) => `<pre tabindex="0" class="${kind}"><code>${escape(text)}</code></pre>\n`;

/** Page of a report that a cell shows in a frame, or null. */
function framed(html) {
  const found = /^<iframe [^>]*srcdoc="([^"]*)"[^>]*height:(\d+)px/.exec(html);
  if (!found) return null;
  const text = found[1].replace(/&#x27;/g, "'").replace(/&quot;/g, '"').replace(/&lt;/g, '<').replace(/&gt;/g, '>').replace(/&amp;/g, '&');
  return { text, height: Number(found[2]) };
}

/**
 * `prose` renders Markdown. Returns the HTML of all cells, and the pages that go beside it: their texts, in the order of
 * `NAME-1.html`, `NAME-2.html`, …
 */
export function notebook(text, name, prose) {
  const frames = [];
  const shown = (output) => {
    if (output.output_type === 'stream') return plain(joined(output.text), 'output');
    const data = output.data ?? {};
    if (data['image/png']) return `<img alt="Figure that the cell above draws" src="data:image/png;base64,${joined(data['image/png']).replace(/\s/g, '')}">\n`;
    const html = joined(data['text/html']);
    const frame = framed(html);
    if (frame) {
      frames.push(frame.text);
      return `<iframe title="Report that the cell above shows" loading="lazy" height="${frame.height}" src="${name}-${frames.length}.html"></iframe>\n`;
    }
    if (html) return `<div class="output" tabindex="0">${html.replace(/<style[\s\S]*?<\/style>/g, '')}</div>\n`;
    return plain(joined(data['text/plain']), 'output');
  };
  const cells = JSON.parse(text).cells.map((cell) => {
    const source = joined(cell.source);
    return cell.cell_type === 'code' ? plain(source, 'input') + (cell.outputs ?? []).map(shown).join('') : prose(source);
  });
  return { body: cells.join(''), frames };
}
