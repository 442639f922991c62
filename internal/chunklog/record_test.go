package chunklog

import (
	"testing"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
)

func TestOnlyChunksAreTakenOffLogRecords(t *testing.T) {
	r := plog.NewLogRecord()
	_, err := Body(r)
	require.ErrorIs(t, err, ErrNoChunk)
	s := &chunk.Sealed{Body: []byte("x"), Window: 3, Last: 9}
	Put(s, r, "run")
	body, err := Body(r)
	require.NoError(t, err)
	require.Equal(t, []byte("x"), body)
	require.Equal(t, WindowID("run", 3), r.TraceID())
	require.NotEqual(t, WindowID("run", 4), r.TraceID())
	require.NotEqual(t, WindowID("other", 3), r.TraceID())
	r.Attributes().PutInt(VersionAttribute, chunk.Version+1)
	_, err = Body(r)
	require.ErrorIs(t, err, chunk.ErrVersion)
	r.Attributes().Clear()
	_, err = Body(r)
	require.ErrorIs(t, err, chunk.ErrVersion)
}
