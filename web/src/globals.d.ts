// Scripts of the report's pages, which the build puts in front of ours: crates/report/src/assets.
// SPDX-License-Identifier: Apache-2.0 OR MIT
declare const uPlot: any;
declare const HUES: Record<string, [string, string]>;
declare const CYCLE: string[];
declare const DASHES: number[][];
declare function isDark(): boolean;
declare function cssColor(name: string): string;
declare function mixed(hex: string, other: string, share: number): string;
declare function stateLook(name: string): { label: string; pattern: string; fill: string; ink: string };
/** The draft's test cases, as crates/lab/src/conform/playground.rs describes them. */
declare const DRAFT_CASES: {
  cases: { number: number; title: string; demand: string; keys: [string, string][]; flows: string[] }[];
  others: { number: number; title: string; why: string }[];
};
