// The pipe: senders, the bottleneck and its queue, packets in flight, the receiver, and the ACKs on their way back.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { h, isStill, surface } from './dom';
import { CE, FLOW, Flow, HEAD, Head, NOTE, Note, PACKET, Packet, Place, RETRANSMIT, Stage, ofFlow } from './frame';
import { type Look, colorOf } from './looks';
import { type Truth, PACKET_BITS } from './truth';
import { countShown, rateShown, timeShown } from './units';

/** Time for which a dropped packet is seen to fall, in the viewer's milliseconds. */
const FALL_MS = 900;
/** Largest number of falling packets; a policer may drop thousands. */
const FALLING_MAX = 60;
/** Smallest cell of a packet in the queue, CSS pixels. */
const CELL_MIN = 3;
const [LETTER, LETTER_SMALL] = ['600 12px system-ui, sans-serif', '600 10px system-ui, sans-serif'];
/** Share of the reverse path, from the sender, that is seen when the path is hidden. */
const HIDDEN_FROM = 0.3;

/** Colours of one picture. */
interface Inks { page: string; ink: string; flows: string[] }

interface Falling { x: number; y: number; color: string; letter: string; from: number }

interface Places {
  w: number; top: number; bottom: number; ackTop: number; ackBottom: number;
  sender: number; queueFrom: number; queueTo: number; pipeFrom: number; pipeTo: number;
}

export class Pipe {
  readonly canvas = h('canvas', { class: 'pipe', role: 'img', 'aria-label': 'the path of the packets' });
  private falling: Falling[] = [];
  private looks: Look[] = [];
  private states: string[] = [];
  private drops = 0;
  private described = 0;

  setFlows(looks: Look[], states: string[]): void {
    this.looks = looks;
    this.states = states;
    this.falling = [];
  }

  /** Draws a frame. `hide`: all but the ACKs that a sender gets. */
  draw(frame: Float64Array, truth: Truth, hide: boolean): void {
    const { c, w, h: height } = surface(this.canvas);
    if (w < 50) return;
    const places = this.places(w, height);
    c.clearRect(0, 0, w, height);
    this.drawPath(c, places, frame, truth, hide);
    if (hide) this.drawUnknown(c, places);
    this.drawPackets(c, places, frame, truth, hide);
    this.drawSenders(c, places, frame, height);
    if (!hide) this.drawFalling(c, places);
    this.drops = frame[Head.Drops];
    this.describe(frame, truth);
  }

  private places(w: number, height: number): Places {
    const narrow = w < 560;
    const sender = narrow ? (w < 400 ? 78 : 96) : Math.min(132, w * 0.15);
    const queueFrom = sender + (narrow ? 8 : 22);
    const queueTo = queueFrom + w * (narrow ? 0.24 : 0.23);
    return {
      w, top: 40, bottom: height * 0.66, ackTop: height * 0.76, ackBottom: height - 24,
      sender, queueFrom, queueTo, pipeFrom: queueTo + 16, pipeTo: w - (narrow ? 30 : 62),
    };
  }

  private drawPath(c: CanvasRenderingContext2D, at: Places, frame: Float64Array, truth: Truth, hide: boolean): void {
    const [line, soft, raised] = [cssColor('--line'), cssColor('--soft'), cssColor('--raised')];
    const height = at.bottom - at.top;
    c.font = '12px system-ui, sans-serif';
    c.textBaseline = 'alphabetic';
    c.lineWidth = 1;
    c.strokeStyle = line;
    c.fillStyle = raised;
    c.fillRect(at.queueFrom, at.top, at.queueTo - at.queueFrom, height);
    c.strokeRect(at.queueFrom + 0.5, at.top + 0.5, at.queueTo - at.queueFrom - 1, height - 1);
    // The neck of the bottle, then the pipe.
    const [neckTop, neckBottom] = [at.top + height * 0.24, at.bottom - height * 0.24];
    c.beginPath();
    c.moveTo(at.queueTo, at.top);
    c.lineTo(at.pipeFrom, neckTop);
    c.lineTo(at.pipeFrom, neckBottom);
    c.lineTo(at.queueTo, at.bottom);
    c.closePath();
    c.fillStyle = soft;
    c.fill();
    c.fillStyle = raised;
    c.fillRect(at.pipeFrom, neckTop, at.pipeTo - at.pipeFrom, neckBottom - neckTop);
    c.strokeRect(at.pipeFrom + 0.5, neckTop + 0.5, at.pipeTo - at.pipeFrom - 1, neckBottom - neckTop - 1);
    c.fillRect(at.sender, at.ackTop, at.pipeTo - at.sender, at.ackBottom - at.ackTop);
    c.strokeRect(at.sender + 0.5, at.ackTop + 0.5, at.pipeTo - at.sender - 1, at.ackBottom - at.ackTop - 1);
    c.fillStyle = cssColor('--ink');
    c.fillRect(at.pipeTo, at.top, 4, at.ackBottom - at.top);
    c.fillStyle = soft;
    if (hide) return;
    const narrow = at.w < 560;
    const queued = frame[Head.QueuePackets];
    const limit = truth.buffer_packets;
    const delay = (frame[Head.QueueBytes] * 8e9) / Math.max(truth.rate_bps, 1);
    c.fillText(narrow ? `queue ${countShown(queued)}` : `queue ${countShown(queued)} of ${countShown(limit)} packets`, at.queueFrom, at.top - 22);
    c.fillText(`+${timeShown(delay)}`, at.queueFrom, at.top - 7);
    c.fillText(narrow ? rateShown(truth.rate_bps) : `bottleneck ${rateShown(truth.rate_bps)}`, at.pipeFrom, at.top - 22);
    c.fillText(narrow ? timeShown(truth.rtt_ns) : `round trip ${timeShown(truth.rtt_ns)}`, at.pipeFrom, at.top - 7);
    c.fillText(narrow ? '← ACKs' : '← ACKs on the reverse path', at.sender + 4, at.ackBottom + 16);
    c.save();
    c.textAlign = 'right';
    c.fillText(narrow ? 'rcv' : 'receiver', at.w - 2, at.top - 7);
    c.restore();
    const drops = frame[Head.Drops];
    if (drops > 0) c.fillText(`${countShown(drops)} dropped`, at.queueFrom, at.bottom + 16);
  }

  /** The unknown: what lies between a sender and its ACKs. */
  private drawUnknown(c: CanvasRenderingContext2D, at: Places): void {
    c.save();
    // The last part of the reverse path stays visible, so that ACKs are seen to arrive.
    const edge = at.sender + (at.pipeTo - at.sender) * HIDDEN_FROM;
    c.beginPath();
    c.rect(at.queueFrom - 4, 0, at.w, at.ackTop - 6);
    c.rect(edge, at.ackTop - 6, at.w, at.ackBottom + 30);
    c.clip();
    c.fillStyle = cssColor('--raised');
    c.fillRect(0, 0, at.w, at.ackBottom + 30);
    c.strokeStyle = cssColor('--line');
    c.beginPath();
    for (let x = -at.ackBottom; x < at.w; x += 14) {
      c.moveTo(x, at.ackBottom + 30);
      c.lineTo(x + at.ackBottom + 30, 0);
    }
    c.stroke();
    c.fillStyle = cssColor('--soft');
    c.textAlign = 'center';
    c.font = '600 17px system-ui, sans-serif';
    const text = at.w < 560 ? 'unknown to a sender' : 'A sender gets nothing of the path but its ACKs';
    const middle = (at.queueFrom + at.w) / 2;
    const width = c.measureText(text).width + 28;
    c.fillStyle = cssColor('--page');
    c.fillRect(middle - width / 2, at.top + 22, width, 38);
    c.fillStyle = cssColor('--ink');
    c.fillText(text, middle, at.top + 47);
    c.restore();
  }

  private drawPackets(c: CanvasRenderingContext2D, at: Places, frame: Float64Array, truth: Truth, hide: boolean): void {
    const from = HEAD + frame[Head.Flows] * FLOW;
    const count = frame[Head.Packets];
    const inks: Inks = { page: cssColor('--page'), ink: cssColor('--ink'), flows: this.looks.map(colorOf) };
    /** First and past the last packet of each flow in the queue; a frame has them together, oldest first. */
    const queues: [number, number][] = this.looks.map(() => [0, 0]);
    let place = 0;
    while (place < count) {
      const p = from + place * PACKET;
      const [flow, kind] = [frame[p + Packet.Flow], frame[p + Packet.Place]];
      let end = place + 1;
      while (end < count && frame[from + end * PACKET + Packet.Flow] === flow && frame[from + end * PACKET + Packet.Place] === kind) end++;
      const past = from + end * PACKET;
      if (this.looks[flow]) {
        if (kind === Place.Queue) queues[flow] = [p, past];
        else if (kind === Place.Reverse) this.drawAcks(c, at, frame, flow, p, past, inks, hide);
        else if (!hide) this.drawFlight(c, at, frame, flow, p, past, inks, truth);
      }
      place = end;
    }
    if (!hide) this.drawQueue(c, at, frame, queues, truth, inks);
    this.noteDrops(frame, from + count * PACKET, at, inks.flows, hide);
  }

  private drawFlight(
    c: CanvasRenderingContext2D, at: Places, frame: Float64Array, flow: number, from: number, past: number, inks: Inks, truth: Truth,
  ): void {
    const height = at.bottom - at.top;
    const [top, tall] = [at.top + height * 0.24 + 2, height * 0.52 - 4];
    const length = at.pipeTo - at.pipeFrom;
    const delay = Math.max(ofFlow(frame, flow, Flow.Forward), 1);
    const service = (PACKET_BITS / Math.max(truth.rate_bps, 1)) * 1e9;
    const width = Math.max(1.5, (service / delay) * length - 1);
    let last = -1;
    for (let p = from; p < past; p += PACKET) {
      const x = Math.min(at.pipeFrom + ((frame[Head.Now] - frame[p + Packet.Since]) / delay) * length, at.pipeTo - 2);
      const marks = frame[p + Packet.Marks];
      // Several packets of one flow in one pixel are drawn once.
      if (Math.round(x) === last && !(marks & (RETRANSMIT | CE))) continue;
      last = Math.round(x);
      this.packet(c, x, top, Math.min(width, at.pipeTo - x), tall, flow, marks, inks);
    }
  }

  private drawAcks(
    c: CanvasRenderingContext2D, at: Places, frame: Float64Array, flow: number, from: number, past: number, inks: Inks, hide: boolean,
  ): void {
    const delay = Math.max(ofFlow(frame, flow, Flow.Reverse), 1);
    const length = at.pipeTo - at.sender;
    const y = at.ackTop + this.looks[flow].lane * (at.ackBottom - at.ackTop);
    let last = -1;
    c.fillStyle = inks.flows[flow];
    c.beginPath();
    for (let p = from; p < past; p += PACKET) {
      const x = at.pipeTo - Math.min((frame[Head.Now] - frame[p + Packet.Since]) / delay, 1) * length;
      if (Math.round(x) === last || (hide && x > at.sender + length * HIDDEN_FROM - 10)) continue;
      last = Math.round(x);
      c.moveTo(x, y);
      c.lineTo(x + 9, y - 5);
      c.lineTo(x + 9, y + 5);
    }
    c.fill();
  }

  /** The queue from its head at the bottleneck to its tail, whose packets come from all flows in the order of their arrival. */
  private drawQueue(c: CanvasRenderingContext2D, at: Places, frame: Float64Array, queues: [number, number][], truth: Truth, inks: Inks): void {
    const total = queues.reduce((sum, [from, past]) => sum + (past - from) / PACKET, 0);
    const [w, height] = [at.queueTo - at.queueFrom - 4, at.bottom - at.top - 4];
    const limit = Math.max(Math.min(Math.max(truth.buffer_packets, total), 4000), 8);
    const rows = Math.max(1, Math.round(Math.sqrt((limit * height) / w)));
    const cell = Math.max(CELL_MIN, Math.min(height / rows, 26));
    const perColumn = Math.max(1, Math.floor(height / cell));
    const shown = Math.min(total, perColumn * Math.max(1, Math.floor(w / cell)));
    const gap = cell > 6 ? 1 : 0.5;
    const heads = queues.map(([from]) => from);
    for (let index = 0; index < shown; index++) {
      let oldest = -1;
      for (let flow = 0; flow < heads.length; flow++) {
        const isNext = heads[flow] < queues[flow][1] && (oldest < 0 || frame[heads[flow] + Packet.Since] < frame[heads[oldest] + Packet.Since]);
        if (isNext) oldest = flow;
      }
      const x = at.queueTo - 2 - (Math.floor(index / perColumn) + 1) * cell;
      const y = at.bottom - 2 - ((index % perColumn) + 1) * cell;
      this.packet(c, x, y, cell - gap, cell - gap, oldest, frame[heads[oldest] + Packet.Marks], inks);
      heads[oldest] += PACKET;
    }
  }

  private packet(c: CanvasRenderingContext2D, x: number, y: number, w: number, height: number, flow: number, marks: number, inks: Inks): void {
    const look = this.looks[flow];
    c.fillStyle = inks.flows[flow];
    c.fillRect(x, y, w, height);
    if (w >= 11 && height >= 11) {
      c.fillStyle = inks.page;
      c.font = height > 14 ? LETTER : LETTER_SMALL;
      c.fillText(look.letter, x + w / 2 - 4, y + height / 2 + 4);
    } else if (height > 20 && this.looks.length > 1) {
      c.fillStyle = inks.page;
      c.fillRect(x, y + look.lane * (height - 3), w, 3);
    }
    if (marks & RETRANSMIT && w > 2) {
      c.strokeStyle = inks.ink;
      c.lineWidth = 2;
      c.strokeRect(x + 1, y + 1, Math.max(w - 2, 1), height - 2);
      c.lineWidth = 1;
    }
    if (marks & CE) {
      c.fillStyle = inks.ink;
      c.fillRect(x, y, w, Math.min(4, height));
    }
  }

  private noteDrops(frame: Float64Array, from: number, at: Places, colors: string[], hide: boolean): void {
    if (hide || isStill() || frame[Head.Drops] < this.drops) {
      this.falling = [];
    }
    if (hide) return;
    const wall = performance.now();
    for (let note = 0; note < frame[Head.Notes]; note++) {
      const n = from + note * NOTE;
      const stage = frame[n + Note.Stage];
      const look = this.looks[frame[n + Note.Flow]];
      if (!look || stage === Stage.AckArrived || this.falling.length >= FALLING_MAX) continue;
      const spread = ((frame[n + Note.Seq] * 7) % 13) - 6;
      const x = stage === Stage.Lost ? at.pipeFrom + 14 : stage === Stage.AckLost ? at.pipeTo - 12 : at.queueFrom + 12;
      const y = stage === Stage.AckLost ? at.ackTop : at.bottom - 14;
      this.falling.push({ x: x + spread, y, color: colors[frame[n + Note.Flow]], letter: look.letter, from: wall });
    }
    frame[Head.Notes] = 0; // each is shown once, also when a frame is drawn again
  }

  private drawFalling(c: CanvasRenderingContext2D, at: Places): void {
    const wall = performance.now();
    this.falling = this.falling.filter(({ from }) => wall - from < FALL_MS);
    const still = isStill();
    c.font = '700 13px system-ui, sans-serif';
    c.textAlign = 'center';
    for (const { x, y, color, letter, from } of this.falling) {
      const share = still ? 0.4 : (wall - from) / FALL_MS;
      c.globalAlpha = 1 - share * 0.7;
      c.fillStyle = color;
      c.fillText(`✕${letter}`, x, Math.min(y + share * share * 46, at.ackBottom));
    }
    c.globalAlpha = 1;
    c.textAlign = 'start';
  }

  private drawSenders(c: CanvasRenderingContext2D, at: Places, frame: Float64Array, height: number): void {
    const shown = this.looks.slice(0, 8);
    const each = Math.min(46, (height - 44) / Math.max(shown.length, 1));
    c.textAlign = 'start';
    shown.forEach((look, flow) => {
      const y = 22 + flow * each;
      c.fillStyle = colorOf(look);
      c.fillRect(0, y, 16, 16);
      c.fillStyle = cssColor('--page');
      c.font = '700 11px system-ui, sans-serif';
      c.fillText(look.letter, 4, y + 12);
      c.fillStyle = cssColor('--ink');
      c.font = '600 12px system-ui, sans-serif';
      c.fillText(look.cc, 21, y + 12, at.sender - 24);
      if (each < 30) return;
      c.fillStyle = cssColor('--soft');
      c.font = '11px system-ui, sans-serif';
      const state = ofFlow(frame, flow, Flow.Sent) > 0 ? stateLook(this.states[ofFlow(frame, flow, Flow.State)] ?? '').label : 'not started';
      c.fillText(at.w < 560 ? state.replace('Cong. avoidance', 'Avoidance') : state, 21, y + 25, at.sender - 24);
      if (each >= 44) c.fillText(`in flight ${ofFlow(frame, flow, Flow.InFlight)}`, 21, y + 38, at.sender - 24);
    });
    if (this.looks.length > shown.length) {
      c.fillStyle = cssColor('--soft');
      c.font = '11px system-ui, sans-serif';
      c.fillText(`and ${this.looks.length - shown.length} more`, 0, height - 6);
    }
  }

  /** The picture in words, once a second, for those who do not see it. */
  private describe(frame: Float64Array, truth: Truth): void {
    const wall = performance.now();
    if (wall - this.described < 1000) return;
    this.described = wall;
    const flows = this.looks.map((look, flow) => `${look.letter} ${look.cc} ${ofFlow(frame, flow, Flow.InFlight)} packets in flight`);
    const text = `At ${(frame[Head.Now] / 1e9).toFixed(2)} s: queue ${frame[Head.QueuePackets]} packets before a bottleneck of ` +
      `${rateShown(truth.rate_bps)}; ${flows.join(', ')}; ${frame[Head.Drops]} dropped.`;
    this.canvas.setAttribute('aria-label', text);
  }
}
