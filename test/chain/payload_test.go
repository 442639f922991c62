//go:build chain

package chain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
)

// tells are what the dump's lines of a kind tell, in their order.
func (c *collector) tells(t testing.TB, kind string) (all []told) {
	t.Helper()
	text, err := os.ReadFile(c.dump)
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		var is struct{ Kind string }
		if json.Unmarshal(line, &is) == nil && is.Kind == kind {
			all = append(all, decode[told](t, line))
		}
	}
	return all
}

const (
	world = "nccl:feedc0de12345678"
	pair  = "nccl:1111222233334444"
)

// NCCL's payloads come through the extension's real entry: who the process is, what each kernel communicates, and no range
// that stays open.
func TestPayloads(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.play(t, write(t, krec.Payloads()))
	session := c.tells(t, "session")[0].NCCL
	require.NotNil(t, session)
	assert.Equal(t, "feedc0de12345678", session.Comm)
	assert.Equal(t, []int{2, 4, 0}, []int{session.Rank, session.Ranks, session.Device})
	assert.Zero(t, session.Open, "ranges of NCCL's domain that are open")
	assert.Zero(t, session.Unread)
	steps := c.tells(t, "step")
	require.Len(t, steps, 2)
	for _, s := range steps {
		assert.Equal(t, []message{{world, 4096, 1}, {pair, 1024, 1}}, s.Messages)
	}
}

func TestPayloadsOfGroups(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.play(t, write(t, krec.Groups()))
	steps := c.tells(t, "step")
	require.Len(t, steps, 1)
	assert.Equal(t, []message{{world, 768, 2}, {pair, 1024, 1}, {world, 4096, 1}}, steps[0].Messages)
}

// A collector that starts anew is told in the snapshot: frames with the initialisation, the capture and the schemas were
// acknowledged long before.
func TestPayloadsAfterARestart(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	b := krec.NewBuilder()
	b.NCCL()
	b.CommInit(krec.World, 4, 2, 0)
	g := b.Capture()
	b.Collective("ncclAllReduce", krec.World, 4096)
	g.Kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 7)
	b.PopIn("NCCL")
	exec := g.Instantiate()
	for seq := range 60 {
		b.Push(fmt.Sprintf("step:decode seq=%d,tokens=4", seq))
		exec.Launch(5_000, 2_000, 500)
		b.Collective("ncclAllReduce", krec.World, 1024)
		b.Run("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 7, 10_000, 3_000)
		b.PopIn("NCCL")
		b.Pop()
		b.Wait(50e6)
	}
	p := c.begin(t, "--speed", "recorded", "--rebase", write(t, b.Recording()))
	c.eventually("steps are acknowledged", func() bool { return len(c.read(t).acks) > 5 })
	c.kill()
	before := len(c.tells(t, "step"))
	p.waitFor(200)
	c.start()
	p.end(0)
	c.stop()
	steps := c.tells(t, "step")
	require.Len(t, steps, 60)
	require.Less(t, before, 50, "steps that only the second collector saw")
	for i, s := range steps {
		assert.Equal(t, []message{{world, 4096, 1}, {world, 1024, 1}}, s.Messages, "step %d", i)
	}
	session := c.tells(t, "session")[0].NCCL
	require.NotNil(t, session)
	assert.Equal(t, "feedc0de12345678", session.Comm)
	assert.Equal(t, []int{2, 4}, []int{session.Rank, session.Ranks})
}
