// Package link carries the frames of one simulated shim to a collector, over as many connections as
// it takes.
package link

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/kernhes/kernhes/internal/sender"
)

// Kinds of frames that a collector sends.
const (
	headSize = 16
	welcome  = 64
	ack      = 65
	refused  = 67

	kindLost = 8 // of frames that a shim sends
	kindBye  = 13

	mostBody = 1 << 20 // of what a collector sends
)

// Settings are what all links of a run share.
type Settings struct {
	Endpoint string
	Bound    int           // unacknowledged bytes at most
	Wait     bool          // wait for the collector at the bound; else drop the oldest frames, as a shim does
	Stall    time.Duration // but no longer than that: a collector may hold an open step for what is to come
	Cut      int           // a connection ends after so many frames, to be made anew; 0: it does not
}

// A Link is one rank's. The methods that say so are called with Lock held.
type Link struct {
	sync.Mutex
	set     *Settings
	hello   func() []byte // with Lock held
	changed *sync.Cond
	queue   queue

	down     bool // the collector cannot be reached
	stalled  bool // Emit has waited in vain, and nothing was acknowledged since
	closed   bool
	conn     net.Conn
	refused  error
	last     error // of the last connection
	hurried  bool
	greeted  bool   // the last connection was welcomed
	Sent     uint64 // bytes
	Connects int
}

// New is a link that is not connected.
func New(set *Settings) *Link {
	l := &Link{set: set}
	l.changed = sync.NewCond(l)
	return l
}

// Attach gives the link what it takes a snapshot and HELLO from.
func (l *Link) Attach(wire *sender.Sender, hello func() []byte) {
	l.queue.wire, l.hello = wire, hello
}

// Emit takes a frame of the sender, with Lock held. At the bound it waits, or drops the oldest.
// While the collector is out of reach it does not wait: only its caller brings it back.
func (l *Link) Emit(number uint64, bytes []byte) {
	if number == 0 {
		return // HELLO and BASE are made for each connection
	}
	if l.set.Wait {
		room := func() bool { return l.queue.bytes <= l.set.Bound || l.hurried || l.down || l.stalled }
		if !l.await(l.set.Stall, room) {
			l.stalled = true
		}
	}
	l.queue.trim(l.set.Bound)
	l.queue.add(frame{number, bytes})
	l.changed.Broadcast()
}

// Losses are what was dropped and lost since the last call, with Lock held.
func (l *Link) Losses() []sender.Loss { return l.queue.take() }

// Lost is how much was dropped and lost so far, with Lock held.
func (l *Link) Lost() Lost { return l.queue.lost }

// Down has the collector be out of reach, or not, with Lock held.
func (l *Link) Down(down bool) {
	if l.down == down {
		return
	}
	if l.down = down; down && l.conn != nil {
		_ = l.conn.Close()
	}
	l.changed.Broadcast()
}

// Hurry has Emit wait for nobody from now on, and Wait not for long, with Lock held.
func (l *Link) Hurry() {
	l.hurried = true
	l.changed.Broadcast()
}

// Close ends the link without a word, with Lock held: as a process does that dies.
func (l *Link) Close() {
	l.closed = true
	if l.conn != nil {
		_ = l.conn.Close()
	}
	l.changed.Broadcast()
}

// Run keeps the link connected until it is closed. Errors of a connection are tried again.
func (l *Link) Run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for pause := shortest; ; pause = min(2*pause, longest) {
		l.Lock()
		for l.down && !l.closed {
			l.changed.Wait()
		}
		closed, fatal := l.closed, l.refused
		l.Unlock()
		if closed || fatal != nil {
			return fatal
		}
		err := l.connection(ctx)
		l.Lock()
		if l.last = err; l.greeted {
			pause = shortest
		}
		l.greeted = false
		l.Unlock()
		time.Sleep(pause)
	}
}

// Pauses before a connection is tried again.
const (
	shortest = 10 * time.Millisecond
	longest  = time.Second

	hurry = 5 * time.Second // how long Wait waits then
)

// dial opens a connection to tcp://host:port, or to a socket's path.
func dial(ctx context.Context, endpoint string) (net.Conn, error) {
	network, address := "unix", strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix:"), "//")
	if tcp, ok := strings.CutPrefix(endpoint, "tcp://"); ok || !strings.ContainsAny(endpoint, "/@") {
		network, address = "tcp", tcp
		if !ok {
			address = endpoint
		}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// Wait waits until all frames are acknowledged, with Lock held.
func (l *Link) Wait(timeout time.Duration) error {
	if l.hurried {
		timeout = min(timeout, hurry)
	}
	l.await(timeout, func() bool { return len(l.queue.frames) == 0 })
	if n := len(l.queue.frames); n > 0 {
		return fmt.Errorf("%d frames from %d on are not acknowledged: %w", n, l.queue.frames[0].number, cmp.Or(l.refused, l.last, context.DeadlineExceeded))
	}
	return nil
}

// await waits, with Lock held, until something is so, or cannot become so any more; false: the time
// is over.
func (l *Link) await(timeout time.Duration, so func() bool) bool {
	if so() {
		return true
	}
	late := false
	timer := time.AfterFunc(timeout, func() {
		l.Lock()
		defer l.Unlock()
		late = true
		l.changed.Broadcast()
	})
	defer timer.Stop()
	for !so() && !late && !l.closed && l.refused == nil {
		l.changed.Wait()
	}
	return !late
}
