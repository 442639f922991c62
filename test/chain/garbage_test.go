//go:build chain

package chain_test

import (
	bin "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
)

var le = bin.LittleEndian

// head is a frame's head.
func head(length uint32, kind wire.Kind, number uint64) []byte {
	b := le.AppendUint32(nil, length)
	b = le.AppendUint16(b, uint16(kind))
	b = le.AppendUint16(b, 0)
	return le.AppendUint64(b, number)
}

// sessionName is what the collector's log calls a session.
func sessionName(id uint64) string { return fmt.Sprintf("%016x", wire.Public(id)) }

// hello is a whole HELLO frame of a session.
func hello(version uint16, session uint64, run string) []byte {
	body := le.AppendUint64(nil, wire.Magic)
	body = le.AppendUint16(body, version)
	body = append(body, make([]byte, 6)...)
	body = le.AppendUint64(body, session)
	body = wire.AppendPair(wire.AppendPair(body, "run", run), "pid", "1")
	return append(head(uint32(len(body)), wire.KindHello, 0), body...)
}

// dial connects to the collector.
func (c *collector) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", c.socket)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// answer is all that the collector says until it closes.
func answer(t testing.TB, conn net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the collector did not close the connection")
	}
	return string(said)
}

// What does not speak the protocol is turned away, each with a line of the log and a counter, and an engine beside it
// does not notice.
func TestGarbage(t *testing.T) {
	t.Parallel()
	c := newCollector(t, "handshake_timeout: 2s", "reconnect_timeout: 1s")
	beside := c.begin(t, "--speed", "1", file("tp2.rank1"))

	var silent []net.Conn
	for range 200 {
		silent = append(silent, c.dial(t))
	}
	for name, test := range map[string]struct {
		bytes []byte
		log   []string // in one line
	}{
		"garbage":        {[]byte("GET / HTTP/1.1\r\nHost: kernhes\r\n\r\nand so on, as long as it takes"), []string{"warn", "bad frame"}},
		"zeroes":         {make([]byte, 4096), []string{"warn", "first frame is"}},
		"no magic":       {append(head(24, wire.KindHello, 0), make([]byte, 24)...), []string{"warn", "magic 0x0"}},
		"wrong version":  {hello(wire.Version+1, 7, "version"), []string{"warn", "wire version 2, this collector speaks 1"}},
		"4 GiB at first": {head(1<<32-1, wire.KindHello, 0), []string{"warn", "4294967295"}},
		"4 GiB later":    {append(hello(wire.Version, 8, "large"), head(1<<32-1, wire.KindKernels, 1)...), []string{"warn", "4294967295", `"session": "` + sessionName(8)}},
		"odd kernels":    {append(append(hello(wire.Version, 9, "odd"), head(65, wire.KindKernels, 1)...), make([]byte, 65)...), []string{"warn", "65 bytes", `"session": "` + sessionName(9)}},
		"second hello":   {append(hello(wire.Version, 10, "twice"), hello(wire.Version, 10, "twice")...), []string{`"session": "` + sessionName(10)}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := c.dial(t)
			_, err := conn.Write(test.bytes)
			require.NoError(t, err)
			if name == "second hello" {
				require.NoError(t, conn.(*net.UnixConn).CloseWrite())
			}
			said := answer(t, conn)
			if name == "wrong version" {
				assert.Contains(t, said, "wire version 2", "REFUSED says why")
			}
			c.eventually(name+" is logged", func() bool { return c.logged(test.log...) != "" })
		})
	}
	for cut, from := range map[string]func([][]byte) []byte{
		"in a head": func(f [][]byte) []byte { return append(join(f[:3]), f[3][:7]...) },
		"in a body": func(f [][]byte) []byte { return append(join(f[:3]), f[3][:len(f[3])-1]...) },
	} {
		t.Run("truncated "+cut, func(t *testing.T) {
			broken := strings.Count(c.log(), "unexpected EOF")
			conn := c.dial(t)
			_, err := conn.Write(from(fakeshim.Frames(krec.Overlap(), fakeshim.Options{})))
			require.NoError(t, err)
			require.NoError(t, conn.(*net.UnixConn).CloseWrite())
			answer(t, conn)
			c.eventually("it is logged", func() bool { return strings.Count(c.log(), "unexpected EOF") > broken })
		})
	}

	for _, s := range silent {
		assert.Empty(t, answer(t, s))
	}
	beside.end(0)
	ranks := c.ranks(t, beside.run)
	require.Len(t, ranks, 1)
	isExpected(t, "tp2.rank1", ranks[0])

	own := all(scrape(t, c.own))
	assert.Equal(t, 200, int(own.sum("otelcol_kernhes_connections_refused", `reason="silent"`)))
	assert.Equal(t, 1, int(own.sum("otelcol_kernhes_connections_refused", `reason="version"`)))
	assert.GreaterOrEqual(t, own["otelcol_kernhes_protocol_errors"], 6.0)
	c.eventually("all sessions are over", func() bool { return all(scrape(t, c.own))["otelcol_kernhes_sessions"] == 0 })
	assert.Zero(t, all(scrape(t, c.own))["otelcol_kernhes_connections"])
	assert.Empty(t, c.logged("\terror\t"))
}

func join(frames [][]byte) []byte {
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	return all
}
