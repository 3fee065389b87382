// Gives a journal of Max-Q to Porcupine: porcupine MODEL FILE SECONDS.
//
// It prints one JSON object: the verdict ("Ok", "Illegal", "Unknown": not over in time), the
// seconds for reading and for checking (wall clock and CPU time; of short checks the best of
// several), and the process's peak memory. Models: register, fifo-queue, kv (by key).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	shortest = 200 * time.Millisecond // of all tries of a check together
	triesMax = 5
)

type line struct {
	Type    string          `json:"type"`
	Process int             `json:"process"`
	F       string          `json:"f"`
	Value   json.RawMessage `json:"value"`
	Key     string          `json:"key"`
}

// What was asked; the answer is a string, or nil where there was none.
type input struct{ f, key, value string }

const nothing = "null" // a value of JSON

func read(path string) []porcupine.Operation {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<28)
	var found []porcupine.Operation
	open := map[int]int{} // by process, the operation that has begun
	for at := int64(0); lines.Scan(); at++ {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			panic(err)
		}
		value := string(l.Value)
		switch l.Type {
		case "invoke":
			open[l.Process] = len(found)
			found = append(found, porcupine.Operation{
				ClientId: l.Process, Input: input{l.F, l.Key, value}, Call: at, Return: math.MaxInt64})
		case "ok":
			one := &found[open[l.Process]]
			one.Return, one.Output = at, value
		}
	}
	kept := found[:0]
	for _, one := range found { // a read without an answer shows nothing
		f := one.Input.(input).f
		if one.Output != nil || (f != "read" && f != "get") {
			kept = append(kept, one)
		}
	}
	return kept
}

var register = porcupine.Model{
	Init: func() interface{} { return nothing },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		if asked := in.(input); asked.f == "write" {
			return true, asked.value
		}
		return out == state, state
	},
}

// A queue's state is never written to: what is put in goes into a copy, what is taken is cut off.
var queue = porcupine.Model{
	Init: func() interface{} { return []string(nil) },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		inside := state.([]string)
		if asked := in.(input); asked.f == "enqueue" {
			more := make([]string, len(inside)+1)
			copy(more, inside)
			more[len(inside)] = asked.value
			return true, more
		}
		if len(inside) == 0 {
			return out == nil || out == nothing, inside
		}
		return out == nil || out == inside[0], inside[1:]
	},
	Equal: func(one, two interface{}) bool {
		a, b := one.([]string), two.([]string)
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	},
}

var kv = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, one := range history {
			key := one.Input.(input).key
			byKey[key] = append(byKey[key], one)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return "" },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		switch asked := in.(input); asked.f {
		case "put":
			return true, asked.value
		case "append":
			return true, state.(string) + asked.value
		}
		return out == state, state
	},
}

// Texts are compared without their quotes, as they are put together.
func unquoted(history []porcupine.Operation) {
	for i := range history {
		asked := history[i].Input.(input)
		asked.value = strings.Trim(asked.value, `"`)
		history[i].Input = asked
		if text, ok := history[i].Output.(string); ok {
			history[i].Output = strings.Trim(text, `"`)
		}
	}
}

func cpu() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}

func peakMiB() int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "VmHWM:" {
			kib, _ := strconv.Atoi(words[1])
			return kib / 1024
		}
	}
	return 0
}

func main() {
	models := map[string]porcupine.Model{"register": register, "fifo-queue": queue, "kv": kv}
	model, known := models[os.Args[1]]
	limit, err := strconv.Atoi(os.Args[3])
	if !known || err != nil {
		panic("usage: porcupine MODEL FILE SECONDS")
	}
	began := time.Now()
	history := read(os.Args[2])
	if os.Args[1] == "kv" {
		unquoted(history)
	}
	readS := time.Since(began).Seconds()
	wall, own := math.Inf(1), math.Inf(1)
	var verdict porcupine.CheckResult
	for first, tries := time.Now(), 0; tries == 0 ||
		(tries < triesMax && time.Since(first) < shortest); tries++ {
		began, before := time.Now(), cpu()
		verdict = porcupine.CheckOperationsTimeout(model, history, time.Duration(limit)*time.Second)
		wall = math.Min(wall, time.Since(began).Seconds())
		own = math.Min(own, cpu()-before)
	}
	out, _ := json.Marshal(map[string]interface{}{
		"verdict": string(verdict), "read_s": readS, "wall_s": wall, "own_s": own,
		"peak_mib": peakMiB()})
	fmt.Println(string(out))
}
