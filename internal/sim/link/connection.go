package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sort"
)

const atOnce = 64 // frames of one write

// errCut ends a connection that is to be made anew.
var errCut = errors.New("cut")

// connection makes one connection and sends until it ends.
func (l *Link) connection(ctx context.Context) error {
	conn, err := dial(ctx, l.set.Endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	l.Lock()
	if l.closed || l.down {
		l.Unlock()
		return errCut
	}
	l.conn = conn
	l.Connects++
	hello := l.hello()
	l.Unlock()
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	kind, body, err := read(conn)
	if err != nil {
		return err
	}
	if kind == refused {
		l.refuse(body)
		return errCut
	}
	if kind != welcome || len(body) < 32 {
		return fmt.Errorf("frame of kind %d with %d bytes in answer to HELLO", kind, len(body))
	}
	l.Lock()
	l.greeted = true
	received := binary.LittleEndian.Uint64(body[24:])
	l.queue.resume(binary.LittleEndian.Uint64(body[16:]), received)
	l.changed.Broadcast()
	snapshot := bytes.Join(l.queue.wire.Snapshot(), nil)
	l.Unlock()
	if _, err := conn.Write(snapshot); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- l.hear(conn) }()
	err = l.tell(conn, received+1)
	_ = conn.Close()
	return errors.Join(err, <-done)
}

// refuse takes word that the collector does not want this engine.
func (l *Link) refuse(body []byte) {
	l.Lock()
	defer l.Unlock()
	l.refused = errors.New("the collector refused")
	if len(body) >= 8 {
		l.refused = fmt.Errorf("the collector refused: %s", body[8:])
	}
	l.changed.Broadcast()
}

// tell sends frames from a number on.
func (l *Link) tell(conn net.Conn, next uint64) error {
	sent := 0
	for {
		l.Lock()
		var batch net.Buffers
		for {
			frames := l.queue.frames
			first := sort.Search(len(frames), func(i int) bool { return frames[i].number >= next })
			for _, f := range frames[first:min(first+atOnce, len(frames))] {
				batch = append(batch, f.bytes)
				next = f.number + 1
				l.Sent += uint64(len(f.bytes))
			}
			if len(batch) > 0 || l.closed || l.conn != conn {
				break
			}
			l.changed.Wait()
		}
		l.queue.sent = max(l.queue.sent, next-1) // also what is being sent
		closed := l.closed || l.conn != conn
		l.Unlock()
		if closed && len(batch) == 0 {
			return nil
		}
		sent += len(batch)
		if _, err := batch.WriteTo(conn); err != nil {
			return err
		}
		if l.set.Cut > 0 && sent >= l.set.Cut {
			return errCut
		}
	}
}

// hear takes acknowledgements until the connection ends.
func (l *Link) hear(conn net.Conn) error {
	for {
		kind, body, err := read(conn)
		l.Lock()
		if err != nil {
			if l.conn == conn {
				l.conn = nil
			}
			l.changed.Broadcast()
			l.Unlock()
			return err
		}
		if kind == ack && len(body) >= 8 {
			l.queue.acknowledge(binary.LittleEndian.Uint64(body))
			l.stalled = false
			l.changed.Broadcast()
		}
		l.Unlock()
	}
}

// read reads a frame that the collector sends.
func read(r io.Reader) (kind uint16, body []byte, err error) {
	head := make([]byte, headSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head)
	if n > mostBody {
		return 0, nil, fmt.Errorf("frame of %d bytes, at most %d", n, mostBody)
	}
	body = make([]byte, n)
	_, err = io.ReadFull(r, body)
	return binary.LittleEndian.Uint16(head[4:]), body, err
}
