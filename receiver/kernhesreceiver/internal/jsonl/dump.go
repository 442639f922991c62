// Package jsonl turns what becomes of each record into lines of a file.
package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// A File is a file of JSON lines: what became of every record, and a journal of what was acknowledged.
//
// A step's line is written when it closes, an ack line before the acknowledgement that it stands for is sent. So after a
// kill -9 a collector with the same dump knows which frames the engine may have freed, and which of the steps that it will
// be sent again are written already. A crash of the machine may lose the last lines: nothing here waits for the disk.
type File struct {
	mu   sync.Mutex
	File dumpFile
	size int64 // of whole lines
}

// A dumpFile is the file of a dump: *os.File, opened for appending.
type dumpFile interface {
	io.WriteCloser
	Truncate(size int64) error
}

// A SessionLine is the totals of one rank of a session that has ended.
type SessionLine struct {
	Kind                string             `json:"kind"`
	Run                 string             `json:"run"`
	Session             string             `json:"session"`
	Rank                int64              `json:"rank"`
	Device              int                `json:"device"`
	PID                 string             `json:"pid"`
	Host                string             `json:"host"`
	Mode                string             `json:"mode"`
	Ended               string             `json:"ended"` // bye or gone
	Kernels             uint64             `json:"kernels"`
	Copies              map[string]uint64  `json:"copies"`
	engine.LaunchCounts                    // launches, captured_launches, unfulfilled_launches
	FirstNS             uint64             `json:"first_ns"`
	LastNS              uint64             `json:"last_ns"`
	WatermarkNS         uint64             `json:"watermark_ns"`
	ComputeNS           uint64             `json:"compute_ns"`
	CommNS              uint64             `json:"comm_ns"`
	OverlapNS           uint64             `json:"overlap_ns"`
	CopyNS              uint64             `json:"copy_ns"`
	IdleNS              uint64             `json:"idle_ns"`
	UnknownNS           uint64             `json:"unknown_ns"`
	CommKernels         uint64             `json:"comm_kernels"`
	StepRanges          uint64             `json:"step_ranges"`
	StepsComplete       uint64             `json:"steps_complete"`
	StepsIncomplete     map[string]uint64  `json:"steps_incomplete"` // by reason
	Called              uint64             `json:"called"`
	engine.KernelStates                    // in_steps, outside, late, invalid, duplicate
	InvalidBy           map[string]uint64  `json:"invalid_by"` // by reason
	Pending             uint64             `json:"pending"`
	Missing             uint64             `json:"missing"` // records that launches lacked when they were given up
	Dropped             map[string]uint64  `json:"dropped"` // by reason
	NCCL                *engine.NCCLReport `json:"nccl,omitempty"`
}

// An AckLine is a journal entry: every record up to Frame is in a step line above, or in one of these counts. They count
// since the session's last such line.
type AckLine struct {
	Kind    string `json:"kind"`
	Session string `json:"session"`
	Frame   uint64 `json:"frame"`
	engine.Unattributed
}

// A Remembered session is what a dump, or the past of this process, knows of one.
type Remembered struct {
	Frame uint64            // highest that was acknowledged
	Bye   bool              // it ended by itself
	Steps map[string]uint64 // id to last frame of the steps beyond that are in the dump
	Last  int64             // byte at which its last line in the dump ends
}

// Open opens or makes the file, cuts off a torn last line, and returns the sessions that it tells of.
// It reads the whole file: about 2 s a GB.
func Open(path string) (*File, map[uint64]Remembered, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("dump: %w", err)
	}
	d := &File{File: file}
	// Two writers would not know of each other's steps.
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		err = fmt.Errorf("dump: %s is in use by another collector: %w", path, err)
	}
	var past map[uint64]Remembered
	if err == nil {
		past, d.size, err = readDump(file)
	}
	if err == nil {
		err = file.Truncate(d.size)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return d, past, nil
}

// readDump reads what a new collector must know, and how many bytes are whole lines.
func readDump(r io.Reader) (map[uint64]Remembered, int64, error) {
	past := map[uint64]Remembered{}
	lines := bufio.NewReaderSize(r, 1<<20)
	var size int64
	for {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return past, size, nil // what is left is torn
		}
		if err != nil {
			return nil, 0, fmt.Errorf("dump: at byte %d: %w", size, err)
		}
		var line struct {
			Kind, Session, ID, Ended string
			Frame                    uint64
		}
		if err := json.Unmarshal(text, &line); err != nil {
			return nil, 0, fmt.Errorf("dump: line at byte %d: %w", size, err)
		}
		size += int64(len(text))
		id, err := strconv.ParseUint(line.Session, 16, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("dump: line that ends at byte %d: session %q: %w", size, line.Session, err)
		}
		s := past[id]
		switch line.Kind {
		case "step":
			if s.Steps == nil {
				s.Steps = map[string]uint64{}
			}
			s.Steps[line.ID] = line.Frame
		case "ack":
			s.Frame = line.Frame
			for step, frame := range s.Steps {
				if frame <= line.Frame {
					delete(s.Steps, step) // freed by the engine: it cannot come again
				}
			}
		case "session":
			s.Bye = line.Ended == "bye"
		}
		s.Last = size
		past[id] = s
	}
}

// Write appends lines, all in one write. After an error nothing of them is in the file.
func (d *File) Write(lines ...any) error {
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false)
	for _, line := range lines {
		if err := encode.Encode(line); err != nil {
			return fmt.Errorf("dump: %w", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.File.Write(b.Bytes())
	if err != nil {
		if n > 0 {
			err = errors.Join(err, d.File.Truncate(d.size))
		}
		return fmt.Errorf("dump: %w", err)
	}
	d.size += int64(n)
	return nil
}

// Close releases the file.
func (d *File) Close() error { return d.File.Close() }

// SessionLines are the lines of a session that has ended.
func SessionLines(id uint64, reports []engine.Report, ended string) []any {
	lines := make([]any, 0, len(reports)+1)
	for i := range reports {
		r := &reports[i]
		lines = append(lines, SessionLine{
			Kind: "session", Run: r.Info["run"], Session: engine.SessionName(id), Rank: r.Rank, Device: r.Device,
			PID: r.Info["pid"], Host: r.Info["host"], Mode: r.Info["mode"], Ended: ended,
			Kernels: r.Kernels, Copies: r.Copies, LaunchCounts: r.Launches,
			FirstNS: r.FirstNS, LastNS: r.LastNS, WatermarkNS: r.WatermarkNS,
			ComputeNS: r.ComputeNS, CommNS: r.CommNS, OverlapNS: r.OverlapNS, CopyNS: r.CopyNS,
			IdleNS: r.IdleNS, UnknownNS: r.UnknownNS,
			CommKernels: r.Comm, StepRanges: r.StepRanges, StepsComplete: r.Complete, StepsIncomplete: r.Incomplete,
			Called: r.Called, KernelStates: r.Became, InvalidBy: r.Invalid, Pending: r.Pending, Missing: r.Missing, Dropped: r.Dropped,
			NCCL: r.NCCL,
		})
	}
	return lines
}
