// Package identity turns the evidence that an engine process sends into its run and its ranks.
//
//	evidence.go   the name that a start goes by: a setting, NCCL, a launcher, or the session leader
//	rank.go       the rank of a process, and a GPU's place on its host
//	starts.go     which start of a name a process belongs to: a name may be used again
//	memory.go     the starts that are remembered over a restart of the collector
//	container.go  the container of a process, from its cgroup
package identity

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A World is NCCL's world communicator, as a process joined it. The zero World is that of a process that joined none.
type World struct {
	Comm  uint64 // its id: fresh for each start, equal on all hosts; 0: not known
	Rank  int64  // below 0: not known
	Ranks int64
}

// covers reports whether the communicator holds all ranks of the start, as far as is known. One of a single rank does not:
// each replica of an engine has its own. Neither does one of fewer ranks than the launcher started.
func (w World) covers(info map[string]string) bool {
	size, ok := number(info["env.WORLD_SIZE"])
	return w.Comm != 0 && w.Ranks > 1 && (!ok || w.Ranks >= size)
}

// A Name is what a start goes by. Starts of equal evidence have equal names.
type Name struct {
	Text  string
	From  string // the evidence, for people
	Local bool   // the evidence holds on one host: ranks of other hosts do not join
}

// Evidence for runs and ranks, for people.
const (
	FromSetting = "KERNHES_RUN"
	FromNCCL    = "NCCL world communicator"
	FromSlurm   = "Slurm"
	FromTorch   = "torchelastic"
	FromJob     = "job id"
	FromLeader  = "session leader"
)

// NameOf is the name of a process's start by the pairs of its HELLO. An old shim gives `run` where a new one gives evidence:
// it is read like KERNHES_RUN.
func NameOf(info map[string]string, world World) Name {
	if run := info["run"]; run != "" {
		return Name{Text: run, From: FromSetting}
	}
	if world.covers(info) {
		return Name{Text: ncclName(world), From: FromNCCL}
	}
	if text, from := launch(info); text != "" {
		return Name{Text: text, From: from}
	}
	leader := []string{info["host"], info["boot_id"], info["leader.pid"], info["leader.start"]}
	return Name{Text: strings.Join(leader, "/"), From: FromLeader, Local: true}
}

func ncclName(world World) string { return fmt.Sprintf("nccl-%016x", world.Comm) }

// launch is what the launchers say of the start: their job, step and count of restarts. Launchers nest, so all of it counts.
func launch(info map[string]string) (text, from string) {
	env := func(name string) string { return info["env."+name] }
	var parts []string
	add := func(part, source string) {
		parts = append(parts, part)
		from = cmp.Or(from, source)
	}
	if job := env("SLURM_JOB_ID"); job != "" {
		step := cmp.Or(env("SLURM_STEP_ID"), env("SLURM_STEPID"), "batch")
		add(fmt.Sprintf("slurm-%s.%s.%s", job, step, cmp.Or(env("SLURM_RESTART_COUNT"), "0")), FromSlurm)
	}
	for _, job := range []struct{ variable, name string }{{"PBS_JOBID", "pbs"}, {"LSB_JOBID", "lsf"}} {
		if id := env(job.variable); id != "" && len(parts) == 0 {
			add(job.name+"-"+id, FromJob)
		}
	}
	if id := cmp.Or(env("PMIX_NAMESPACE"), env("OMPI_MCA_ess_base_jobid")); id != "" && (env("OMPI_COMM_WORLD_SIZE") != "" || len(parts) == 0) {
		add("mpi-"+id, FromJob)
	}
	id, restart := env("TORCHELASTIC_RUN_ID"), env("TORCHELASTIC_RESTART_COUNT")
	switch {
	case id != "" && id != "none":
		add(fmt.Sprintf("torchelastic-%s.%s@%s:%s", id, cmp.Or(restart, "0"), env("MASTER_ADDR"), env("MASTER_PORT")), FromTorch)
	case restart != "" && len(parts) > 0:
		add("restart-"+restart, "")
	}
	return strings.Join(parts, "/"), from
}

// number reads a count or a rank; false: it is none.
func number(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil && n >= 0
}
