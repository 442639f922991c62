package kernhesreceiver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/manifest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata/metadatatest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/nccl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

const (
	limitedBy = "kern_limited_total"
	refusedBy = "kernhes_connections_refused"
	endedBy   = "kernhes_protocol_errors"
)

// limitRows are what bounds an engine, with what becomes of what is beyond. Those without a default are settings, whose comments
// have it; each has its counter.
var limitRows = []struct {
	limit   string
	fixed   int // bound of one that is no setting
	beyond  string
	counter string
}{
	{"max_connections", 0, "the connection is closed, or the newest of the container, user or host that has most of them", refusedBy + "{reason=connections}, {reason=share}"},
	{"max_sessions", 0, "the engine is refused with that reason, and tries again; or the newest session of the container, user or host that has most of them ends", refusedBy + "{reason=sessions}, kernhes_sessions_shed"},
	{"max_new_sessions", 0, "likewise", refusedBy + "{reason=rate}"},
	{"handshake_timeout", 0, "the connection is closed", refusedBy + "{reason=silent}"},
	{"silence_timeout", 0, "the connection is closed", refusedBy + "{reason=silent}, {reason=deaf}"},
	{"allowed_uids", 0, "the connection is closed", refusedBy + "{reason=uid}"},
	{"tls", 0, "the connection is closed", refusedBy + "{reason=tls}"},
	{"auth", 0, "the engine is refused with that reason, and tries again", refusedBy + "{reason=auth}"},
	{"max_strings", 0, "kernels have no name, ranges no text", limitedBy + "{limit=max_strings}"},
	{"max_ranges", 0, "launches have no call, or no step", limitedBy + "{limit=max_ranges}"},
	{"max_shapes", 0, "the oldest gives way, and is worked out again when it is needed", limitedBy + "{limit=max_shapes}"},
	{"max_series", 0, "steps count as `other`", limitedBy + "{limit=max_series}"},
	{"max_session_bytes", 0, "open steps close as incomplete, reason too_large", limitedBy + "{limit=max_session_bytes}"},
	{"max_total_series", 0, "further label sets of a container or process that has its share count as `other`, and records of its further ranks are lost, reason session_limit", limitedBy + "{limit=max_total_series}"},
	{"max_total_bytes", 0, "containers and processes with more than their share close open steps as incomplete, reason too_large, and get no further names and graphs", limitedBy + "{limit=max_total_bytes}"},
	{"bytes of a frame", wire.MaxBody, "the connection ends with the place and the reason", endedBy},
	{"bytes of HELLO", wire.MaxHello, "likewise", endedBy},
	{"bytes of a text", wire.MaxText, "likewise; the library cuts texts there", endedBy},
	{"bytes of a metric's label", metrics.MaxLabel, "the rest is a hash; traces and the archive have the whole text", "kern_kernels_total"},
	{"devices of a session", engine.MaxDevices, "records of further ones are lost, reason session_limit", limitedBy + "{limit=devices}"},
	{"open ranges of a thread in a domain, beside steps", ranges.MaxDepth, "the outer ones lose their text", limitedBy + "{limit=range_depth}"},
	{"threads × domains with ranges", ranges.MaxStacks, "those without open ranges go, then the ones that pushed nothing for longest", "kern_range_faults_total{fault=leaked}"},
	{"open start/end ranges", ranges.MaxStarts, "the oldest ones go", "kern_range_faults_total{fault=leaked}"},
	{"open ranges that are steps", ranges.MaxOpen, "further ones are no steps", limitedBy + "{limit=max_ranges}"},
	{"open steps", step.MaxOpen, "all close as incomplete", limitedBy + "{limit=max_session_bytes}"},
	{"kernels of a step", step.MaxKernels, "it closes as incomplete, reason too_large", "kern_steps_incomplete_total"},
	{"hours that a launch may lie ahead of a flush", 1, "it counts as made at the flush", "kern_launches_unfulfilled_total"},
	{"nodes of graphs", cupti.DefaultLimits.Nodes, "their kernels have no call", limitedBy + "{limit=graph_nodes}"},
	{"graphs", cupti.DefaultLimits.Graphs, "likewise", limitedBy + "{limit=graph_nodes}"},
	{"launches that wait for records", cupti.DefaultLimits.Launches, "the oldest is given up", limitedBy + "{limit=launches}"},
	{"threads with NCCL ranges", nccl.MaxThreads, "what further ones communicate is not known", limitedBy + "{limit=nccl}"},
	{"depth of a thread's NCCL ranges", nccl.MaxDepth, "likewise of deeper ones", limitedBy + "{limit=nccl}"},
	{"matching labels to a manifest's expressions, instructions × bytes", manifest.MaxCost, "kernels of further labels have no op, and the class that their names give", limitedBy + "{limit=manifest}"},
	{"pairs of communicator and bytes", nccl.MaxCalls, "group and bytes of further ones are not known", limitedBy + "{limit=nccl}"},
}

// limitsTable is limitRows with the defaults that Config's comments give.
func limitsTable(t *testing.T) string {
	standards := configDefaults(t)
	d := metadatatest.Read(t, "metadata.yaml")
	var b strings.Builder
	fmt.Fprint(&b, "| limit | default | what is beyond it | counted in |\n| --- | --- | --- | --- |\n")
	for _, row := range limitRows {
		name, standard := row.limit, fmt.Sprint(row.fixed, ", fixed")
		if row.fixed == 0 {
			require.Contains(t, standards, row.limit, "no such setting")
			name, standard = "`"+row.limit+"`", standards[row.limit]
		}
		counter, _, _ := strings.Cut(row.counter, "{")
		_, metric := d.Metrics[counter]
		_, own := d.Telemetry.Metrics[counter]
		require.True(t, metric || own, "no such counter: %s", counter)
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", name, standard, row.beyond, row.counter)
	}
	return b.String()
}

// TestEveryLimitIsInTheTable: a setting that bounds something is listed, and so is each value of the metric of limits.
func TestEveryLimitIsInTheTable(t *testing.T) {
	table := limitsTable(t)
	for key := range configDefaults(t) {
		if strings.HasPrefix(key, "max_") {
			require.Contains(t, table, "`"+key+"`")
		}
	}
	require.ElementsMatch(t, engine.LimitNames[:], metadatatest.Read(t, "metadata.yaml").Attributes["limit"].Enum)
	for _, name := range engine.LimitNames {
		require.Contains(t, table, "{limit="+name+"}")
	}
}
