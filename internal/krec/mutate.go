package krec

import (
	"fmt"
	"math/rand/v2"
)

// A mutation changes a recording in place; what it leaves could have been recorded, once it is settled.
type mutation struct {
	name  string
	apply func(*mutator)
}

// mutations in the order in which they are applied: those of whole records first, then threads and ranges, whose order
// of frames the last ones shuffle.
var mutations = []mutation{
	{"remove-kernels", (*mutator).removeKernels},
	{"remove-launches", (*mutator).removeLaunches},
	{"move-stream", (*mutator).moveStream},
	{"split-stream", (*mutator).splitStream},
	{"shift-all", (*mutator).shiftAll},
	{"shift-stream", (*mutator).shiftStream},
	{"invalid-times", (*mutator).invalidTimes},
	{"graph-copies", (*mutator).graphCopies},
	{"rename-kernels", (*mutator).renameKernels},
	{"rename-labels", (*mutator).renameLabels},
	{"strip-seq", (*mutator).stripSeq},
	{"duplicate-texts", (*mutator).duplicateTexts},
	{"two-threads", (*mutator).twoThreads},
	{"overlap-threads", (*mutator).overlapThreads},
	{"nested-steps", (*mutator).nestedSteps},
	{"leaked-pushes", (*mutator).leakedPushes},
	{"named-domain", (*mutator).namedDomain},
	{"wrap-ids", (*mutator).wrapIDs},
	{"shuffle", (*mutator).shuffle},
}

// Mutations are the names that Apply knows.
func Mutations() []string {
	var names []string
	for _, m := range mutations {
		names = append(names, m.name)
	}
	return names
}

// Mutate changes a copy of r by one to five mutations drawn by seed, and says which.
func Mutate(r *Recording, seed uint64) (*Recording, []string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	drawn := map[int]bool{}
	for range 1 + rng.IntN(5) {
		drawn[rng.IntN(len(mutations))] = true
	}
	var names []string
	for i, m := range mutations {
		if drawn[i] {
			names = append(names, m.name)
		}
	}
	changed, _ := Apply(r, seed, names...) // all are known
	return changed, names
}

// Apply changes a copy of r by the mutations named, drawing by seed. It refuses a name that Mutations has not.
func Apply(r *Recording, seed uint64, names ...string) (*Recording, error) {
	m := &mutator{r: r.Clone(), rng: rand.New(rand.NewPCG(seed, 2))}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	for _, known := range mutations {
		if wanted[known.name] {
			known.apply(m)
			settle(m.r)
			delete(wanted, known.name)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("mutation %q is not known", name)
	}
	m.rebuffer()
	return m.r, nil
}

type mutator struct {
	r   *Recording
	rng *rand.Rand
}

// chance is true in one of n cases.
func (m *mutator) chance(n int) bool { return m.rng.IntN(n) == 0 }

// raws are the buffers.
func (m *mutator) raws() []*Raw {
	var raws []*Raw
	for _, f := range m.r.Frames {
		if raw, ok := f.(*Raw); ok {
			raws = append(raws, raw)
		}
	}
	return raws
}

// insert puts extra[i] before the frame at i; extra[len(frames)] at the end.
func (m *mutator) insert(extra map[int][]Frame) {
	var frames []Frame
	for i, f := range m.r.Frames {
		frames = append(append(frames, extra[i]...), f)
	}
	m.r.Frames = append(frames, extra[len(m.r.Frames)]...)
}

// newThread is an id that no thread of the recording has.
func (m *mutator) newThread() uint32 {
	var most uint32
	for _, f := range m.r.Frames {
		switch f := f.(type) {
		case *Push:
			most = max(most, f.Thread)
		case *Launch:
			most = max(most, f.Thread)
		}
	}
	return most + 1
}

// newStream is an id that no stream of the recording has.
func (m *mutator) newStream() uint32 {
	var most uint32
	for _, raw := range m.raws() {
		for _, r := range raw.Records {
			most = max(most, r.Stream())
		}
	}
	return most + 4
}

// someStream is the stream of a kernel drawn at random, or false where there is none.
func (m *mutator) someStream() (uint32, bool) {
	var streams []uint32
	seen := map[uint32]bool{}
	for _, raw := range m.raws() {
		for _, r := range raw.Records {
			if r.Kind() == KindKernel && !seen[r.Stream()] {
				seen[r.Stream()] = true
				streams = append(streams, r.Stream())
			}
		}
	}
	if len(streams) == 0 {
		return 0, false
	}
	// Half the time the first, which has most of the kernels.
	return streams[m.rng.IntN(len(streams))*m.rng.IntN(2)], true
}

// rebuffer splits buffers over 1 MiB, as large as the recorder's were, which added records made.
func (m *mutator) rebuffer() {
	const most = 1 << 20
	var frames []Frame
	for _, f := range m.r.Frames {
		raw, ok := f.(*Raw)
		if !ok {
			frames = append(frames, f)
			continue
		}
		part, bytes := &Raw{}, 0
		for _, r := range raw.Records {
			if bytes+len(r) > most {
				frames = append(frames, part)
				part, bytes = &Raw{}, 0
			}
			part.Records = append(part.Records, r)
			bytes += len(r)
		}
		frames = append(frames, part)
	}
	m.r.Frames = frames
}
