package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/kernhes/kernhes/internal/wire"
)

// A heardLaunch is a launch of a step, with its records.
type heardLaunch struct {
	records     int
	first, last uint64 // unix ns
}

// A heardStep is a step as the shim tells of it.
type heardStep struct {
	traced, cut bool // in a window; an edge lies in it
	launches    []*heardLaunch
}

// sum is how many records a step has, and from when to when those behind its first launch lie: that one holds the stream.
func (s *heardStep) sum() (records int, first, last uint64) {
	for i, l := range s.launches {
		records += l.records
		if i == 0 || l.records == 0 {
			continue
		}
		if first == 0 || l.first < first {
			first = l.first
		}
		last = max(last, l.last)
	}
	return records, first, last
}

// A heard engine is all that its shim said.
type heard struct {
	info    map[string]string
	sawMode map[string]bool
	steps   map[uint64]*heardStep
	records uint64
	strange uint64 // records whose launch was not heard
	zero    uint64 // records without a time
	lost    uint64
	windows int
	err     error

	texts map[uint32]string
	open  map[uint32][]*heardStep // by thread; nil: a range that is no step
	calls map[uint32]*heardLaunch // by correlation id; nil: it went into a graph
	on    bool
	depth uint32 // at which steps are pushed
}

// A hearer is the collector of a self-test: it hears one engine.
type hearer struct {
	listener net.Listener
	running  sync.WaitGroup
	orders   bool

	mu   sync.Mutex
	conn net.Conn
	heard
}

// hear listens on a unix socket. orders has it order windows, one a second.
func hear(path string, orders bool) (*hearer, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("selftest: %w", err)
	}
	h := &hearer{listener: listener, orders: orders, heard: heard{
		info: map[string]string{}, sawMode: map[string]bool{}, steps: map[uint64]*heardStep{}, texts: map[uint32]string{},
		open: map[uint32][]*heardStep{}, calls: map[uint32]*heardLaunch{},
	}}
	h.running.Go(h.accept)
	return h, nil
}

// accept serves the first connection.
func (h *hearer) accept() {
	conn, err := h.listener.Accept()
	if err != nil {
		return
	}
	h.mu.Lock()
	h.conn = conn
	h.mu.Unlock()
	if err := h.serve(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		h.heard.err = err
	}
	_ = conn.Close()
}

// close waits until the engine's connection has ended, for some seconds at most, and returns what was heard.
func (h *hearer) close() *heard {
	_ = h.listener.Close()
	h.mu.Lock()
	if h.conn != nil {
		_ = h.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	}
	h.mu.Unlock()
	h.running.Wait()
	return &h.heard
}

// serve reads frames until the connection ends, and acknowledges each.
func (h *hearer) serve(conn net.Conn) error {
	frames := wire.NewReader(conn)
	var ordered time.Time
	id := uint64(time.Now().UnixNano())
	placed := false
	for {
		f, err := frames.Next()
		if err != nil {
			return err
		}
		if err := h.take(f, conn); err != nil {
			return err
		}
		if f.Number > 0 {
			if _, err := conn.Write(wire.AppendAck(nil, f.Number)); err != nil {
				return err
			}
		}
		if f.Kind == wire.KindBye {
			return nil
		}
		if !h.orders || h.depth == 0 {
			continue
		}
		var control []byte
		if !placed {
			placed = true
			control = wire.AppendControl(control, wire.CommandPlace, 0, 0, uint64(h.depth))
		}
		if now := time.Now(); h.info["window_state"] == "detached" && now.Sub(ordered) > time.Second {
			ordered = now
			id++
			start := now.Add(100 * time.Millisecond)
			control = wire.AppendControl(control, wire.CommandWindow, uint64(start.UnixNano()), uint64(start.Add(400*time.Millisecond).UnixNano()), id)
		}
		if _, err := conn.Write(control); err != nil {
			return err
		}
	}
}

// take takes a frame.
func (h *heard) take(f wire.Frame, conn io.Writer) error {
	switch f.Kind {
	case wire.KindHello:
		hello, err := wire.ParseHello(f.Body)
		if err != nil {
			return err
		}
		h.told(hello.Info)
		_, err = conn.Write(wire.AppendWelcome(nil, wire.Welcome{}))
		return err
	case wire.KindInfo:
		info, err := wire.ParseInfo(f.Body)
		h.told(info)
		return err
	case wire.KindStrings:
		return wire.Strings(f.Body, func(id uint32, text []byte) { h.texts[id] = string(text) })
	case wire.KindEvents:
		return wire.Events(f.Body, h.event)
	case wire.KindKernels:
		kernels, err := wire.Kernels(f.Body)
		for i := range kernels {
			h.kernel(&kernels[i])
		}
		return err
	case wire.KindLost:
		lost, err := wire.ParseLost(f.Body)
		h.lost += lost.Count
		return err
	}
	return nil
}

func (h *heard) told(info map[string]string) {
	for key, value := range info {
		h.info[key] = value
	}
	h.sawMode[h.info["mode"]] = true
}

// event takes an event.
func (h *heard) event(e wire.Event) {
	thread := e.Thread()
	switch e.Kind() {
	case wire.EventPush:
		id, text := e.Text()
		said := wire.Text(text)
		if id != 0 {
			said = h.texts[id]
		}
		var kind string
		var seq uint64
		var s *heardStep
		if n, _ := fmt.Sscanf(said, "step:%s seq=%d", &kind, &seq); n == 2 {
			s = &heardStep{traced: h.on}
			h.steps[seq] = s
			h.depth = e.Depth()
		}
		h.open[thread] = append(h.open[thread], s)
	case wire.EventPop:
		if n := len(h.open[thread]); n > 0 {
			h.open[thread] = h.open[thread][:n-1]
		}
	case wire.EventLaunch:
		l := &heardLaunch{}
		h.calls[e.Correlation()] = l
		if open := h.open[thread]; len(open) > 0 && open[len(open)-1] != nil {
			s := open[len(open)-1]
			s.launches = append(s.launches, l)
		}
	case wire.EventTracingOn, wire.EventTracingOff:
		h.on = e.Kind() == wire.EventTracingOn
		if h.on {
			h.windows++
			clear(h.calls) // correlation ids may begin anew
		}
		for _, open := range h.open {
			for _, s := range open {
				if s != nil {
					s.cut = true
				}
			}
		}
	}
}

// kernel takes a record.
func (h *heard) kernel(k *wire.Kernel) {
	h.records++
	if k.Start() == 0 || k.End() < k.Start() {
		h.zero++
	}
	l := h.calls[k.Correlation()]
	if l == nil {
		h.strange++
		return
	}
	l.records++
	if l.first == 0 || k.Start() < l.first {
		l.first = k.Start()
	}
	l.last = max(l.last, k.End())
}
