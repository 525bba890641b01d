// An adapter to fill in: it lets the conformance suite ask your reader. Put your reader into read; the rest stays.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

var profile = map[string]any{
	"protocol": 1,
	"name":     "my reader",
	"version":  "0.1",
	"commands": []string{"decode", "verify", "serve"},
	"reads":    map[string][]string{"layouts": {"v1"}, "lacks": {}, "omits": {}, "shapes": {}},
}

// Rejected is the error of a file that is wrong. Any other error, and a panic, counts as a crash.
type Rejected struct {
	Rule    *string `json:"rule"`
	Offset  *int64  `json:"offset"`
	Message string  `json:"message"`
}

// Unsupported is the error of a file that may be right, but that your reader cannot read. The suite skips it.
type Unsupported struct{ Message string }

func (e Rejected) Error() string    { return e.Message }
func (e Unsupported) Error() string { return e.Message }

// reject names the rule that a file breaks, and the byte where it does.
func reject(rule string, offset int64, message string) error {
	return Rejected{&rule, &offset, message}
}

// Key opens an encrypted file; what is not given is nil.
type Key struct {
	KeyHex     *string `json:"key_hex"`
	Passphrase *string `json:"passphrase"`
}

// read is your reader. It returns canonical JSON; if verify, it checks every hash too.
func read(file string, key Key, verify bool) (any, error) {
	stream, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	magic := make([]byte, 5)
	if _, err := io.ReadFull(stream, magic); err != nil || string(magic) != "|TZR|" {
		return nil, Rejected{Message: "this is no .tensors file"}
	}
	return nil, Unsupported{"there is no reader here yet"}
}

// Request is a line that serve answers, or a command line.
type Request struct {
	ID      int64  `json:"id"`
	Command string `json:"command"`
	File    string `json:"file"`
	Key
}

// answer gives what is answered to a request, and under which name.
func answer(request Request) (name string, value any) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(os.Stderr, "%s\n%v\n", debug.Stack(), problem)
			name, value = "crashed", fmt.Sprint(problem)
		}
	}()
	if request.Command == "capabilities" {
		return "capabilities", profile
	}
	verify := request.Command == "verify"
	content, err := read(request.File, request.Key, verify)
	var rejected Rejected
	var unsupported Unsupported
	switch {
	case errors.As(err, &rejected):
		return "rejected", rejected
	case errors.As(err, &unsupported):
		return "unsupported", unsupported.Message
	case err != nil:
		return "crashed", err.Error()
	case verify:
		return "verified", true
	}
	return "decoded", content
}

// serve answers lines of JSON until stdin ends.
func serve() error {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var request Request
		if err := requests.Decode(&request); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		name, value := answer(request)
		if err := answers.Encode(map[string]any{"id": request.ID, name: value}); err != nil {
			return err
		}
	}
}

// answerOnce answers a command line: a command, a file, and perhaps an option that names the file of a key.
func answerOnce(words []string) (status int, err error) {
	request := Request{Command: words[0]}
	if len(words) > 1 {
		request.File = words[1]
	}
	if len(words) > 3 {
		secret, err := os.ReadFile(words[3])
		if err != nil {
			return 3, err
		}
		text := string(secret)
		if words[2] == "--key-file" {
			request.KeyHex = &text
		} else {
			request.Passphrase = &text
		}
	}
	name, value := answer(request)
	switch name {
	case "crashed":
		return 3, fmt.Errorf("%v", value)
	case "capabilities", "decoded":
		return 0, json.NewEncoder(os.Stdout).Encode(value)
	}
	status = map[string]int{"rejected": 1, "unsupported": 2}[name]
	return status, json.NewEncoder(os.Stdout).Encode(map[string]any{name: value})
}

func main() {
	status, err := 0, error(nil)
	if os.Args[1] == "serve" {
		err = serve()
	} else {
		status, err = answerOnce(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 3
	}
	os.Exit(status)
}
