package link

import (
	"encoding/binary"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernhes/kernhes/internal/sender"
)

// records is a link with so many frames of one kernel each, of 80 bytes.
func records(set Settings, frames int) (*Link, *sender.Sender) {
	l := New(&set)
	l.Lock()
	defer l.Unlock()
	s := sender.New(l.Emit)
	s.Pin()
	l.Attach(s, func() (hello []byte) {
		sender.New(func(_ uint64, f []byte) { hello = f }).Hello(1, "run", "r")
		return hello
	})
	s.Base()
	for range frames {
		s.Records(make([]sender.Kernel, 1), nil)
	}
	return l, s
}

// At the bound an engine that would wait drops frames if the collector is out of reach, or if it
// acknowledges nothing for long.
func TestNobodyTakesFrames(t *testing.T) {
	for what, set := range map[string]Settings{"stalls": {Bound: 800, Wait: true, Stall: time.Millisecond}, "is down": {Bound: 800, Wait: true, Stall: time.Hour}} {
		l, s := records(set, 10)
		l.Lock()
		l.Down(what == "is down")
		for range 101 { // the bound is passed from the second on
			s.Records(make([]sender.Kernel, 1), nil)
			if l.Lost().Kernels > 0 {
				l.set.Stall = time.Hour // it waits no second time
			}
		}
		if lost := l.Lost(); lost.Kernels != 100 || len(l.queue.frames) != 11 {
			t.Errorf("%s: %d frames are kept, lost are %+v", what, len(l.queue.frames), lost)
		}
		l.Unlock()
	}
}

// collect answers one connection as a collector: WELCOME with what it has, then one
// acknowledgement.
func collect(t *testing.T, l net.Listener, has, acks uint64) {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if _, _, err := read(c); err != nil {
		t.Error(err)
	}
	frame := func(kind uint16, words ...uint64) {
		b := binary.LittleEndian.AppendUint32(nil, uint32(8*len(words)))
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, uint32(kind)), 0)
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		_, _ = c.Write(b)
	}
	frame(welcome, 0, 1, 0, has)
	for {
		kind, _, err := read(c)
		if err != nil {
			t.Error(err)
			return
		}
		if kind == 5 { // KERNELS
			break
		}
	}
	frame(ack, acks)
}

// A connection that ends is made anew, and what was not acknowledged is sent until it is.
func TestConnectsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l, _ := records(Settings{Endpoint: path, Bound: 1 << 20, Wait: true}, 10)
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	collect(t, listener, 0, 4)
	collect(t, listener, 7, 10)
	l.Lock()
	err = l.Wait(30 * time.Second)
	if l.Connects < 2 {
		t.Errorf("%d connections", l.Connects)
	}
	l.Close()
	l.Unlock()
	if err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A collector that refuses ends the link with its reason.
func TestRefused(t *testing.T) {
	l, _ := records(Settings{Bound: 800, Wait: true}, 1)
	l.refuse(append(make([]byte, 8), "no such version"...))
	l.Lock()
	defer l.Unlock()
	if err := l.Wait(30 * time.Second); err == nil || !strings.Contains(err.Error(), "no such version") {
		t.Errorf("%v", err)
	}
}
