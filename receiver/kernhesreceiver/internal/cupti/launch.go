package cupti

import "math"

// How a launch stands.
const (
	open     = iota // records are still to come
	done            // all came
	captured        // it went into a graph: none will come
	expired         // given up: those that didn't come count as lost
)

// A Launch is one launch call of the engine.
type Launch struct {
	Time        uint64 // unix ns at which the call was entered
	Frame       uint64 // that told of it
	Correlation uint32
	Graph       bool
	Label       uint32 // call that an eager launch is of; 0: none
	Comm        uint32 // what an eager launch communicates, by nccl.Follower; 0: not known
	Owner       uint64 // step that it was launched in; 0: none
	Ordinal     uint32 // among the launches of its owner
	Around      uint32 // what ranges that are no step's it was launched in, where it has no owner

	state     uint8
	graph     *Graph   // that it replays, known from its first record
	changes   uint32   // of graph, then
	seen      []uint64 // bit set of positions in graph whose record came
	got       int      // kernel records that came
	strange   int      // of those, of nodes that no launch call made
	moved     int      // copies and memsets that came
	last      uint64   // latest end among them, unix ns
	lanes     []*lane  // streams of a replay
	unordered bool     // some of it ran on a stream that there was no lane for

	queued bool    // among the open ones of its Joiner
	older  *Launch // with the same correlation id, 2^32 API calls ago
	next   *Launch // in its slot of the table
}

// Captured reports whether the launch went into a graph.
func (l *Launch) Captured() bool { return l.state == captured }

// Expired reports whether the launch was given up.
func (l *Launch) Expired() bool { return l.state == expired }

// Expected is how many kernels the launch gives, and whether that is known.
func (l *Launch) Expected() (int, bool) {
	if !l.Graph {
		return 1, true
	}
	if l.graph == nil || !l.graph.counted() {
		return 0, false
	}
	return l.graph.Kernels(), true
}

// Uncertain reports whether the launch was given up although no record of it is missing for sure: it is a replay, its
// kernel count is unknown, and nothing showed its end.
func (l *Launch) Uncertain() bool {
	_, known := l.Expected()
	return l.state == expired && !known && l.Missing() == 0
}

// Missing is how many records never came, as far as that is known: of a launch that gave none, one.
func (l *Launch) Missing() int {
	n, known := l.Expected()
	if known && l.graph != nil {
		return max(0, n-l.got) + max(0, l.graph.count[copied]-l.moved)
	}
	if known || l.graph == nil {
		return max(0, 1-l.got)
	}
	return max(l.lacks(), 1-l.got)
}

// lacks is how many records did not come that each replay gives.
func (l *Launch) lacks() int {
	return max(0, l.graph.count[launched]-(l.got-l.strange)) + max(0, l.graph.count[copied]-l.moved)
}

// replays takes note which graph the launch replays.
func (l *Launch) replays(g *Graph) { l.graph, l.changes = g, g.changes }

// Replays is the graph that the launch replays; nil before its first record.
func (l *Launch) Replays() *Graph { return l.graph }

// complete reports whether all records came, as far as that is known without waiting.
func (l *Launch) complete() bool {
	n, known := l.Expected()
	return known && l.got >= n && (!l.Graph || l.moved >= l.graph.count[copied])
}

// whole reports whether all records came, as far as a flush that began at t shows it. missing is as in followed. A replay
// that is seen to its end shows what its graph gives, and so may complete others.
func (l *Launch) whole(t uint64, missing *Launch) bool {
	if l.complete() {
		return true
	}
	return l.maybe() && l.followed(t, missing) && l.shows()
}

// maybe reports whether all records of a replay may have come whose kernel count is unknown.
func (l *Launch) maybe() bool {
	_, known := l.Expected()
	return !known && l.got > 0 && (l.graph == nil || l.lacks() == 0)
}

// shows takes what a replay that came whole shows of its graph. It is true.
func (l *Launch) shows() bool {
	if g := l.graph; g != nil && !g.partial && l.changes == g.changes {
		g.proven = true
	}
	return true
}

// mark notes that the record at a position of a launch came; false: it came before.
func (j *Joiner) mark(l *Launch, position int) bool {
	word, bit := position>>6, uint64(1)<<(position&63)
	if word >= len(l.seen) && !j.grow(l, word) {
		return true
	}
	if l.seen[word]&bit != 0 {
		return false
	}
	l.seen[word] |= bit
	return true
}

// maxMarks bounds the marks of all launches, in words: 2,000 nodes have 32, and some 50,000 launches are remembered.
const maxMarks = 8 << 20

// grow makes room for marks up to a word; false: there is none, and what comes twice there is not known for it.
func (j *Joiner) grow(l *Launch, word int) bool {
	if j.marks >= maxMarks {
		return false
	}
	before := cap(l.seen)
	l.seen = append(l.seen, make([]uint64, max(len(l.graph.Nodes)>>6, word)+1-len(l.seen))...)
	j.marks += cap(l.seen) - before
	return true
}

// Launch takes a launch call. If too many wait for records, the oldest is given up and returned.
func (j *Joiner) Launch(l Launch) (ended *Launch) {
	if j.waiting >= j.limits.Launches {
		j.Refused.Launches++
		ended = j.oldest()
		j.end(ended, expired)
	}
	n := j.fresh()
	seen, lanes := n.seen, n.lanes
	*n = l
	n.seen, n.lanes, n.queued = seen, lanes, true
	j.launches.put(n)
	n.cut()
	j.calls = j.calls.add(l.Correlation, l.Owner)
	if len(j.open) > 2*j.waiting+slab {
		j.compact()
	}
	j.open = append(j.open, n)
	j.waiting++
	j.Counts.Launches++
	j.history.note(l.Correlation, l.Time)
	return ended
}

// LaunchCommunicates takes what a launch communicates, where that became known after it was made.
func (j *Joiner) LaunchCommunicates(correlation, comm uint32) {
	if l := j.launches.get(correlation); l != nil && l.state == open {
		l.Comm = comm
	}
}

// maxReuse is how many launches with the same correlation id are told apart. CUPTI gives an id again after 2^32 calls, so two
// is many; a record looks through all of them.
const maxReuse = 8

// cut forgets the launches with l's correlation id beyond maxReuse: their records are another's then.
func (l *Launch) cut() {
	for n := 1; l.older != nil; n++ {
		if n == maxReuse {
			l.older = nil
			return
		}
		l = l.older
	}
}

// Captured takes word that a launch went into a graph; nil if there is no such launch.
func (j *Joiner) Captured(correlation uint32) *Launch {
	l := j.launches.get(correlation)
	if l == nil || l.state != open {
		return nil
	}
	j.end(l, captured)
	j.Counts.Captured++
	return l
}

// end gives a launch its last state and lets it be forgotten in its turn.
func (j *Joiner) end(l *Launch, state uint8) {
	l.state = state
	j.waiting--
	if state == expired {
		j.Counts.Unfulfilled++
	}
	if l.graph != nil && l.graph.unchecked() {
		j.Counts.Unchecked++
	}
	j.recent = append(j.recent, l)
	if len(j.recent)-j.recentHead > j.limits.Recent {
		j.forget()
	}
}

// forget drops the launch that ended first. Launches that ended are kept for a while, so that a
// record that comes twice or late is known for what it is.
func (j *Joiner) forget() {
	l := j.recent[j.recentHead]
	j.recent[j.recentHead] = nil
	if j.recentHead++; j.recentHead > j.limits.Recent {
		n := copy(j.recent, j.recent[j.recentHead:])
		clear(j.recent[n:])
		j.recent, j.recentHead = j.recent[:n], 0
	}
	j.launches.remove(l)
	if l.queued {
		return // the queue of open launches lets go of it in its turn
	}
	l.seen = l.seen[:0]
	clear(l.lanes)
	l.lanes = l.lanes[:0]
	l.graph = nil
	j.spare = append(j.spare, l)
}

// fresh returns an unused Launch.
func (j *Joiner) fresh() *Launch {
	if n := len(j.spare); n > 0 {
		l := j.spare[n-1]
		j.spare = j.spare[:n-1]
		return l
	}
	j.spare = make([]*Launch, slab)
	for i, all := 0, make([]Launch, slab); i < slab; i++ {
		j.spare[i] = &all[i]
	}
	return j.fresh()
}

// slab is how many launches are made at a time.
const slab = 64

// oldest is the launch that has waited longest for records, or nil.
func (j *Joiner) oldest() *Launch {
	for j.openHead < len(j.open) {
		if l := j.open[j.openHead]; l.state == open {
			return l
		} else {
			l.queued = false
		}
		j.open[j.openHead] = nil
		j.openHead++
	}
	j.open, j.openHead = j.open[:0], 0
	return nil
}

// Oldest is when the longest waiting launch was made, unix ns, and in which frame; false if none waits.
func (j *Joiner) Oldest() (time, frame uint64, ok bool) {
	l := j.oldest()
	if l == nil {
		return 0, 0, false
	}
	return l.Time, l.Frame, true
}

// Stalled reports whether a launch waits for kernels that must come: one that gave none yet, or too few of a known number.
func (j *Joiner) Stalled() (stalled bool) {
	j.waitingLaunches(func(l *Launch) {
		_, known := l.Expected()
		stalled = stalled || known || l.got == 0
	})
	return stalled
}

// waitingLaunches calls f with each launch that waits for records, oldest first.
func (j *Joiner) waitingLaunches(f func(*Launch)) {
	for _, l := range j.open[j.openHead:] {
		if l.state == open {
			f(l)
		}
	}
}

// Flushed takes a completed flush that began at t, unix ns, and calls ended with each launch that
// thereby ends. A replay whose kernel count is unknown ends when later work on its streams shows that:
// silence does not, for a kernel may be waiting in it. A launch without its records is given up timeout
// after it was made, once records of kernels that started after that have come: while a kernel hangs,
// nothing comes, and nothing is lost. With nothing to tell by, it is given up after six timeouts.
func (j *Joiner) Flushed(t, timeout uint64, ended func(*Launch)) {
	missing := j.missing()
	j.waitingLaunches(func(l *Launch) {
		if l.Time > t+future {
			l.Time = t // it was made before the flush, whatever it says; else it waited for ever, and all after it were not acknowledged
		}
		over := t > l.Time+timeout && j.started > l.Time+timeout || t > l.Time+6*timeout
		blocked := missing
		if over {
			blocked = nil // what holds its buffer back holds it no longer than a launch is waited for
		}
		switch {
		case l.whole(t, blocked):
			j.end(l, done)
		case over:
			j.end(l, expired)
		default:
			return
		}
		ended(l)
	})
	for _, s := range j.lanes {
		s.then = s.now
	}
	j.compact()
}

// future is how far ahead of a flush, in ns, a launch may say that it was made, for clocks that are set.
const future = 3600e9

// missing is the oldest launch that lacks records for sure, or nil.
func (j *Joiner) missing() *Launch {
	for _, l := range j.open[j.openHead:] {
		if _, known := l.Expected(); l.state == open && (known || l.got == 0) {
			return l
		}
	}
	return nil
}

// End gives up every launch that waits, and calls ended with each. whole says that all records came
// that will ever come: later work on a replay's streams then shows that it ended.
func (j *Joiner) End(whole bool, ended func(*Launch)) {
	j.waitingLaunches(func(l *Launch) {
		if whole && l.whole(math.MaxUint64, nil) {
			j.end(l, done)
		} else {
			j.end(l, expired)
		}
		ended(l)
	})
}

// WindowEnded ends every launch that waits, since no record of it comes any more, and calls ended with each. idle says that the GPU
// was idle before the last records were fetched: then a replay is whole of which nothing is missing for sure.
func (j *Joiner) WindowEnded(idle bool, ended func(*Launch)) {
	j.waitingLaunches(func(l *Launch) {
		if l.whole(math.MaxUint64, nil) || idle && l.maybe() && l.shows() {
			j.end(l, done)
		} else {
			j.end(l, expired)
		}
		ended(l)
	})
	j.compact()
}

// Restart takes word that correlation ids may begin anew: what ended is forgotten, and so are the times of ids.
func (j *Joiner) Restart() {
	for j.recentHead < len(j.recent) {
		j.forget()
	}
	j.compact()
	j.calls = j.calls[:0]
	j.history = history{}
	clear(j.lanes)
	j.recentLane = nil
}

// compact takes the launches that ended out of the queue of open ones, when they are more than half of it.
func (j *Joiner) compact() {
	j.oldest()
	if len(j.open) <= 2*j.waiting {
		return
	}
	n := 0
	for _, l := range j.open[j.openHead:] {
		if l.state == open {
			j.open[n] = l
			n++
		} else {
			l.queued = false
		}
	}
	clear(j.open[n:])
	j.open, j.openHead = j.open[:n], 0
}

// Waiting is the launch that waits longest for records; nil: none waits.
func (j *Joiner) Waiting() *Launch { return j.oldest() }

// Due is the node of a replay that is the first whose kernel did not come, in order of capture; nil: that is not known.
func (l *Launch) Due() *Node {
	if l.graph == nil || l.got == 0 {
		return nil
	}
	for i := range l.graph.Nodes {
		seen := i>>6 < len(l.seen) && l.seen[i>>6]&(1<<(i&63)) != 0
		if n := &l.graph.Nodes[i]; n.gives() && !seen {
			return n
		}
	}
	return nil
}
