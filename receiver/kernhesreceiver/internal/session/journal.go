package session

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl"
)

// A journal is what acknowledgement rests on where there is a dump: which frames of each session were acknowledged, and which
// steps beyond those are in the dump already.
//
// An entry follows the lines of the dump that it stands for, and has the dump's size behind them. A collector that was killed
// between the two reads the lines of the dump from that size on. So each step is in the dump once, and the dump can be moved
// away: the journal alone knows all that came before.
type journal struct {
	dump *jsonl.File
	path string

	mu     sync.Mutex
	file   output
	size   int64 // of whole entries
	limit  int64 // size from which on the journal is written anew
	behind bool  // the last entry could not be written: only the dump has it
	at     int64 // size of the dump, as the last entry has it
	past   map[uint64]*remembered
	last   int64 // entries, until now
}

// An output is where entries go: *os.File, opened for appending.
type output = io.WriteCloser

// A remembered session is what the journal, or the past of this process, knows of one.
type remembered struct {
	frame uint64            // highest that was acknowledged
	bye   bool              // it ended by itself
	steps map[string]uint64 // id to last frame of the steps beyond that are in the dump
	last  int64             // when something was noted of it last, as a number that grows
}

// A note is an entry of the journal. Those of other kinds than step, ack and session are none.
type note struct {
	Kind    string `json:"kind"`
	Session string `json:"session"`
	ID      string `json:"id,omitempty"`
	Frame   uint64 `json:"frame,omitempty"`
	Ended   string `json:"ended,omitempty"`
	At      int64  `json:"at"` // size of the dump
}

// minJournal is the least size from which on a journal is written anew, in bytes.
const minJournal = 4 << 20

// openJournal opens the dump at a path, and the journal beside it.
func openJournal(path string) (*journal, error) {
	j := &journal{path: path + ".journal", past: map[uint64]*remembered{}}
	if err := j.read(); err != nil {
		return nil, err
	}
	var err error
	if j.dump, err = jsonl.Open(path, j.at, j.took); err != nil {
		return nil, err
	}
	j.at = j.dump.Size()
	if err := j.rewrite(); err != nil {
		return nil, errors.Join(err, j.dump.Close())
	}
	return j, nil
}

// read reads the journal, as far as its entries are whole. Without one, the dump says all.
func (j *journal) read() error {
	file, err := os.Open(j.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dump: journal: %w", err)
	}
	defer func() { _ = file.Close() }()
	_, err = jsonl.ReadEntries(file, 0, func(e jsonl.Entry) {
		j.at = e.At
		j.took(e)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	return nil
}

// took takes what is in the journal, or in the dump.
func (j *journal) took(e jsonl.Entry) {
	s := j.past[e.Session]
	if s == nil {
		s = &remembered{}
		j.past[e.Session] = s
	}
	j.last++
	s.last = j.last
	switch e.Kind {
	case "step":
		if s.steps == nil {
			s.steps = map[string]uint64{}
		}
		if e.Frame > s.frame {
			s.steps[e.ID] = e.Frame
		}
	case "ack":
		s.frame = max(s.frame, e.Frame)
		for step, frame := range s.steps {
			if frame <= s.frame {
				delete(s.steps, step) // freed by the engine: it cannot come again
			}
		}
	case "session":
		s.bye = e.Ended == "bye"
	}
}

// remembered are the sessions that are known, in the order in which they were noted last.
func (j *journal) remembered() []uint64 {
	return slices.SortedFunc(maps.Keys(j.past), func(a, b uint64) int { return cmp.Compare(j.past[a].last, j.past[b].last) })
}

// rewrite writes the journal anew, without what is past. Of the sessions only the last ones stay.
func (j *journal) rewrite() error {
	var notes []any
	ids := j.remembered()
	for i, id := range ids {
		s, name := j.past[id], engine.SessionName(id)
		if i < len(ids)-maxPast {
			delete(j.past, id)
			continue
		}
		for _, step := range slices.Sorted(maps.Keys(s.steps)) {
			notes = append(notes, note{Kind: "step", Session: name, ID: step, Frame: s.steps[step], At: j.at})
		}
		notes = append(notes, note{Kind: "ack", Session: name, Frame: s.frame, At: j.at})
		if s.bye {
			notes = append(notes, note{Kind: "session", Session: name, Ended: "bye", At: j.at})
		}
	}
	text, err := jsonl.Encode(notes...)
	if err != nil {
		return err
	}
	next := j.path + ".new"
	if err := os.WriteFile(next, text, 0o640); err != nil {
		return fmt.Errorf("dump: journal: %w", err)
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		err = os.Rename(next, j.path)
	}
	if err != nil {
		return fmt.Errorf("dump: journal: %w", err)
	}
	if j.file != nil {
		err = j.file.Close()
	}
	j.file, j.size, j.limit = file, int64(len(text)), max(minJournal, 4*int64(len(text)))
	return err
}

// step writes the line of a step to the dump, unless it is there. The caller may try again after an error.
func (j *journal) step(session uint64, line *engine.StepTotals) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.past[session]; s != nil {
		if _, written := s.steps[line.ID]; written {
			return nil
		}
	}
	return j.write([]any{line}, jsonl.Entry{Kind: "step", Session: session, ID: line.ID, Frame: line.Frame})
}

// ack writes an acknowledgement, which may be sent then.
func (j *journal) ack(session uint64, line jsonl.AckLine) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.write([]any{line}, jsonl.Entry{Kind: "ack", Session: session, Frame: line.Frame})
}

// end writes the last lines of a session, one write for all: a kill leaves them all or, at the worst, a session line without
// its ack line, which is then written again.
func (j *journal) end(session uint64, lines []any, ended string, ack jsonl.AckLine) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.write(append(lines, ack), jsonl.Entry{Kind: "session", Session: session, Ended: ended},
		jsonl.Entry{Kind: "ack", Session: session, Frame: ack.Frame})
}

// write writes lines to the dump, and the entries that stand for them. The caller holds mu.
func (j *journal) write(lines []any, entries ...jsonl.Entry) error {
	if j.behind || j.size > j.limit {
		if err := j.rewrite(); err != nil {
			return err
		}
		j.behind = false
	}
	size, err := j.dump.Write(lines...)
	if err != nil {
		return err
	}
	j.at = size
	notes := make([]any, len(entries))
	for i, e := range entries {
		j.took(e)
		notes[i] = note{Kind: e.Kind, Session: engine.SessionName(e.Session), ID: e.ID, Frame: e.Frame, Ended: e.Ended, At: size}
	}
	text, err := jsonl.Encode(notes...)
	if err != nil {
		return err
	}
	n, err := j.file.Write(text)
	j.size += int64(n)
	// The dump has the lines, so that they must not be written again. The journal is written anew before anything else is.
	j.behind = err != nil
	return nil
}

// close releases both files.
func (j *journal) close() error { return errors.Join(j.dump.Close(), j.file.Close()) }
