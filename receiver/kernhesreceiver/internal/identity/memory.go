package identity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
)

// A memory is a file that remembers starts while no collector runs: a line for each claim. A crash of the machine may lose
// the last lines.
type memory struct {
	path  string
	file  *os.File
	lines int
}

// A line of the file: a session is ranks of a run.
type line struct {
	Name    string           `json:"name"`
	Run     string           `json:"run"`
	Session string           `json:"session"` // hexadecimal
	Ranks   []int64          `json:"ranks"`
	Devices map[string]int64 `json:"devices,omitempty"` // of the session, whose places are not known
}

// Bounds of the file.
const (
	maxLines = 4 * maxStarts // more are written anew, without what is forgotten
	maxLine  = 1 << 18       // bytes; longer ones are skipped
)

// Remember takes what a file remembers, and remembers in it from now on. Lines that cannot be read are skipped, and counted.
// It is called before any process joins.
func (s *Starts) Remember(path string) (skipped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, err := os.Open(path)
	switch {
	case err == nil:
		skipped, err = s.read(file)
		err = errors.Join(err, file.Close())
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return skipped, fmt.Errorf("memory of runs: %w", err)
	}
	s.memory = &memory{path: path}
	if err := s.rewrite(); err != nil {
		s.memory = nil
		return skipped, err
	}
	return skipped, nil
}

// Close closes the file.
func (s *Starts) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil {
		return nil
	}
	err := error(nil)
	if s.memory.file != nil {
		err = s.memory.file.Close()
	}
	s.memory = nil
	return err
}

// read takes the lines of an earlier collector.
func (s *Starts) read(from io.Reader) (skipped int, err error) {
	lines := bufio.NewReaderSize(from, maxLine)
	for {
		text, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = lines.ReadSlice('\n')
			}
			skipped++
			continue
		case err == io.EOF:
			if len(bytes.TrimSpace(text)) > 0 {
				skipped++ // torn
			}
			return skipped, nil
		case err != nil:
			return skipped, err
		}
		if !s.recall(text) {
			skipped++
		}
	}
}

// recall takes one line; false: it makes no sense.
func (s *Starts) recall(text []byte) bool {
	var l line
	if json.Unmarshal(text, &l) != nil || l.Run == "" || l.Name == "" || len(l.Ranks) > maxSessionRanks || len(l.Devices) > maxStartDevices {
		return false
	}
	session, err := strconv.ParseUint(l.Session, 16, 64)
	if err != nil {
		return false
	}
	st := s.runs[l.Run]
	if st == nil {
		st = s.add(l.Name, l.Run)
	}
	if of := s.sessions[session]; of != nil && of != st {
		return false
	}
	s.enter(st, session)
	for _, rank := range l.Ranks {
		if _, taken := st.ranks[rank]; !taken && len(st.held[session]) < maxSessionRanks {
			s.take(st, session, rank)
		}
	}
	for device, rank := range l.Devices {
		if len(st.devices) < maxStartDevices {
			st.devices[device], st.owners[device] = rank, session
		}
	}
	return true
}

// lineOf is what a session is, but for its first ranks.
func (st *start) lineOf(session uint64, but int) line {
	l := line{Name: st.name, Run: st.run, Session: strconv.FormatUint(session, 16), Ranks: slices.Clone(st.held[session][but:])}
	for device, owner := range st.owners {
		if owner == session {
			if l.Devices == nil {
				l.Devices = map[string]int64{}
			}
			l.Devices[device] = st.devices[device]
		}
	}
	return l
}

// remember writes what a session has claimed since it had so many ranks.
func (s *Starts) remember(st *start, session uint64, before int) error {
	m := s.memory
	if m == nil || len(st.held[session]) == before && before > 0 {
		return nil
	}
	if m.lines >= maxLines {
		return s.rewrite()
	}
	text, err := json.Marshal(st.lineOf(session, before))
	if err == nil {
		_, err = m.file.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("memory of runs: %w", err)
	}
	m.lines++
	return nil
}

// rewrite writes the file anew.
func (s *Starts) rewrite() error {
	m := s.memory
	var b bytes.Buffer
	lines := 0
	for _, st := range s.order {
		for _, session := range sorted(st.held) {
			text, err := json.Marshal(st.lineOf(session, 0))
			if err != nil {
				return fmt.Errorf("memory of runs: %w", err)
			}
			b.Write(append(text, '\n'))
			lines++
		}
	}
	if m.file != nil {
		_ = m.file.Close() // all of it is in memory
		m.file = nil
	}
	next := m.path + ".new"
	if err := writeNew(next, b.Bytes()); err != nil {
		return fmt.Errorf("memory of runs: %w", err)
	}
	if err := os.Rename(next, m.path); err != nil {
		return fmt.Errorf("memory of runs: %w", err)
	}
	file, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("memory of runs: %w", err)
	}
	m.file, m.lines = file, lines
	return nil
}

// writeNew writes a file that is not there yet: what a name led to before, such as a link, stays as it is.
func writeNew(path string, text []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

func sorted(held map[uint64][]int64) []uint64 {
	all := make([]uint64, 0, len(held))
	for session := range held {
		all = append(all, session)
	}
	slices.Sort(all)
	return all
}
