// Search over the manual: the sections that hold every word, those with the words in their titles first.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { h, put } from './dom';

interface Section { url: string; title: string; text: string }

/** Results that are shown. */
const SHOWN_MAX = 20;
/** Characters around the first word that is found. */
const AROUND = 90;

/** Worth of a section: a word in the title counts as ten in the text. 0 if a word is missing. */
function worth({ title, text }: Section, words: string[]): number {
  const [head, body] = [title.toLowerCase(), text.toLowerCase()];
  const each = words.map((word) => 10 * Number(head.includes(word)) + Math.min(body.split(word).length - 1, 9));
  return each.every((count) => count > 0) ? each.reduce((sum, count) => sum + count, 0) : 0;
}

function excerpt(text: string, words: string[]): string {
  const at = Math.max(0, Math.min(...words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0), text.length));
  return `${at > AROUND ? '… ' : ''}${text.slice(Math.max(0, at - AROUND), at + AROUND)}${at + AROUND < text.length ? ' …' : ''}`;
}

async function main(): Promise<void> {
  const field = document.getElementById('query') as HTMLInputElement;
  const sections: Section[] = await (await fetch('search.json')).json();
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? sections.map((section) => ({ section, value: worth(section, words) })).filter(({ value }) => value > 0) : [];
    found.sort((a, b) => b.value - a.value);
    document.getElementById('count')!.textContent = words.length ? `${found.length} sections` : '';
    put(document.getElementById('found')!, ...found.slice(0, SHOWN_MAX).map(({ section }) =>
      h('li', {}, h('a', { href: section.url }, section.title), h('p', {}, excerpt(section.text, words)))));
    history.replaceState(null, '', words.length ? `#${encodeURIComponent(field.value)}` : '#');
  };
  const read = () => {
    try {
      field.value = decodeURIComponent(location.hash.slice(1));
    } catch {
      field.value = '';
    }
    show();
  };
  field.addEventListener('input', show);
  addEventListener('hashchange', read);
  read();
  field.focus();
}

main().catch(() => { document.getElementById('count')!.textContent = 'The index did not load.'; });
