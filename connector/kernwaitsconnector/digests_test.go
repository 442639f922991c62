package kernwaitsconnector

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/metadata"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/digest"
)

// records are the log records of all.
func records(all []plog.Logs) (records []plog.LogRecord) {
	for _, logs := range all {
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, r := range scope.LogRecords().All() {
					records = append(records, r)
				}
			}
		}
	}
	return records
}

// A collector that gets digests finds the same as one that gets chunks.
func TestDigestsGiveTheSameWaits(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	config := createDefaultConfig().(*Config)
	config.HTTP.Get().NetAddr.Endpoint = address
	sink := new(consumertest.LogsSink)
	d, err := NewFactory().CreateLogsToLogs(t.Context(), connectortest.NewNopSettings(metadata.Type), config, sink)
	require.NoError(t, err)
	require.NoError(t, d.Start(t.Context(), componenttest.NewNopHost()))
	chunks := recordedLogs(t)
	other := plog.NewLogs()
	other.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("hello")
	for _, logs := range append(chunks, other) {
		require.NoError(t, d.ConsumeLogs(t.Context(), logs))
	}
	sent := records(sink.AllLogs())
	require.Equal(t, "hello", sent[len(sent)-1].Body().Str(), "what is no chunk goes on")
	sent = sent[:len(sent)-1]

	shapes := digest.NewShapes()
	c := newComparison(config)
	bytes, steps := 0, 0
	for i, r := range sent {
		require.Equal(t, records(chunks)[i].TraceID(), r.TraceID())
		body, err := chunklog.DigestBody(r)
		require.NoError(t, err)
		rec, err := digest.Decode(body, shapes)
		require.NoError(t, err)
		bytes, steps = bytes+len(body), steps+len(rec.Steps)
		c.digest(rec, epoch)
	}
	c.pairing.Flush()
	require.Equal(t, 2*189, steps)
	require.Less(t, bytes/steps, 3000)
	whole := tp2(t, nil)
	want, got := compared(t, nil, whole[0], whole[1]).only(t), c.only(t)
	require.Equal(t, want.ledger.Sums(), got.ledger.Sums())
	require.Equal(t, want.ledger.Ranks(), got.ledger.Ranks())
	require.Equal(t, want.ledger.Calls(100), got.ledger.Calls(100))
	require.Equal(t, want.ledger.Longest(100), got.ledger.Longest(100))

	// Whole chunks come besides, for a while, when someone asks.
	sink.Reset()
	answer, err := http.Post("http://"+address+"/chunks?for=1m", "", nil)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, answer.Body)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, d.ConsumeLogs(t.Context(), chunks[0]))
	both := records(sink.AllLogs())
	require.Len(t, both, 2)
	require.True(t, chunklog.IsDigest(both[0]))
	_, err = chunklog.Body(both[1])
	require.NoError(t, err)
	answer, err = http.Post("http://"+address+"/chunks?for=never", "", nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
	require.NoError(t, d.Shutdown(t.Context()))
}
