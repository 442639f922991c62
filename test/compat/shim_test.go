//go:build chain

package compat_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
)

// Numbers of the first version, written out: an old collector knows these and no others.
const (
	hello, kernels, bye = 1, 5, 13
	ack                 = 65
	headerSize          = 16
	recordSize          = 64
)

// An oldCollector is one of an earlier version: it knows the header of a frame, answers HELLO with what that version answered, and
// acknowledges what it has read.
type oldCollector struct {
	welcome []byte
	heard   []byte // all that came
	kernels int    // records
	bye     bool
}

func (c *oldCollector) serve(conn net.Conn) error {
	header := make([]byte, headerSize)
	for {
		if _, err := io.ReadFull(conn, header); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		body := make([]byte, binary.LittleEndian.Uint32(header))
		if _, err := io.ReadFull(conn, body); err != nil {
			return err
		}
		c.heard = append(append(c.heard, header...), body...)
		switch binary.LittleEndian.Uint16(header[4:]) {
		case hello:
			if _, err := conn.Write(c.welcome); err != nil {
				return err
			}
		case kernels:
			c.kernels += len(body) / recordSize
		case bye:
			c.bye = true
		}
		if number := binary.LittleEndian.Uint64(header[8:]); number > 0 {
			answer := make([]byte, headerSize+8)
			binary.LittleEndian.PutUint32(answer, 8)
			binary.LittleEndian.PutUint16(answer[4:], ack)
			binary.LittleEndian.PutUint64(answer[headerSize:], number)
			if _, err := conn.Write(answer); err != nil {
				return err
			}
		}
	}
}

// TestTodaysShimTalksToAnOldCollector plays an engine through the built shim to a collector of each version: it takes every kernel,
// and acknowledges the bye.
func TestTodaysShimTalksToAnOldCollector(t *testing.T) {
	if dir := folder + current(t); rewrites(t, dir) {
		begin(t, dir)
	}
	each(t, func(t *testing.T, dir string) {
		welcome, err := os.ReadFile(filepath.Join(dir, "welcome.bin"))
		require.NoError(t, err)
		c := &oldCollector{welcome: welcome}
		socket := filepath.Join(t.TempDir(), "k.sock")
		listener, err := net.Listen("unix", socket)
		require.NoError(t, err)
		defer listener.Close()
		served := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				err = errors.Join(c.serve(conn), conn.Close())
			}
			served <- err
		}()
		player, err := filepath.Abs(root + "bin/kernhes-play")
		require.NoError(t, err)
		play := exec.Command(player, "--quiet", filepath.Join(dir, "engine.krec.zst"))
		play.Env = append(os.Environ(), "KERNHES_ENDPOINT=unix://"+socket, "KERNHES_RUN=compat", "KERNHES_RANK=0")
		out, err := play.CombinedOutput()
		require.NoError(t, err, "%s", out) // 0: all was acknowledged
		select {
		case err := <-served:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the shim's connection did not end")
		}
		assert.Equal(t, expectations(t, dir).Kernels, c.kernels)
		assert.True(t, c.bye)
		if rewrites(t, dir) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "session.wire"), c.heard, 0o644))
		}
	})
}

// begin writes what the other tests of a new version rest on.
func begin(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	recording, want := engine()
	require.NoError(t, krec.Write(filepath.Join(dir, "engine.krec.zst"), recording))
	text, err := json.MarshalIndent(want, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "expect.json"), append(text, '\n'), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "welcome.bin"), slices.Clip(wire.AppendWelcome(nil, wire.Welcome{})), 0o644))
}

// engine is the recording that the folder of this version was made from: 12 decode steps, each of 10 matrix products of 2 µs in one
// call and an all-reduce of 3 µs in another, none of which overlap.
func engine() (*krec.Recording, expected) {
	const steps, products = 12, 10
	b := krec.NewBuilder()
	for range steps {
		b.Push("step:decode seqs=8,tokens=8,kv=8192")
		b.Push("decode.layers.0.mlp")
		for range products {
			b.Run("nvjet_sm90_tst_128x128_64x5_1x2_h_bz_coopB_NNT", 7, 5_000, 2_000) // starts 5 µs after its launch
			b.Wait(10_000)
		}
		b.Pop()
		b.Push("decode.layers.0.reduce")
		b.Run("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 7, 5_000, 3_000)
		b.Pop()
		b.Pop()
		b.Wait(20_000)
	}
	return b.Recording(), expected{
		Steps: steps, Kernels: steps * (products + 1), Calls: 2, ComputeNS: steps * products * 2_000, CommNS: steps * 3_000,
	}
}
