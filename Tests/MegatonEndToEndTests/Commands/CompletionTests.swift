import Foundation
import MegatonCommandLine
import MegatonTestSupport
import Testing

/// The completions of bash, as its readline would ask for them.
@Suite(.timeLimit(.minutes(2))) struct CompletionTests {
    /// The words that complete the last one of a command line, in a directory with `photos/`, `list.csv` and `l.jsonl`.
    private func completions(_ words: String...) async throws -> Set<String> {
        let directory = try TestDirectory()
        defer { directory.remove() }
        try directory.write(Data(), to: "photos/a.jpg")
        for name in ["list.csv", "l.jsonl"] { try directory.write(Data(), to: name) }
        let program = try ProgramUnderTest.megaton(["--generate-completion-script", "bash"])
        let ending = await program.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let script = try directory.write(Data(ending.output.utf8), to: "megaton.bash")
        let ask = """
            source "$0"
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
            _megaton megaton "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        let shell = try ProgramUnderTest(
            program: "/bin/bash",
            arguments: ["-c", ask, script] + words,
            directory: directory.path
        )
        let found = await shell.ending()
        #expect(found.code == 0, "\(found.errors)")
        return Set(found.output.split(separator: "\n").map(String.init))
    }

    /// Fault: an option with a path completed nothing, and kept bash from doing so.
    @Test func pathsAreCompleted() async throws {
        #expect(try await completions("megaton", "run", "l").isSuperset(of: ["list.csv", "l.jsonl"]))
        #expect(try await completions("megaton", "run", "--output", "p") == ["photos"])
        #expect(try await completions("megaton", "run", "--ledger", "l.").contains("l.jsonl"))
        #expect(try await completions("megaton", "report", "l.").contains("l.jsonl"))
    }

    @Test func valuesOfOptionsAreCompleted() async throws {
        #expect(try await completions("megaton", "run", "--format", "w") == ["webp"])
        #expect(try await completions("megaton", "run", "--priority", "b") == ["bulk"])
        #expect(try await completions("megaton", "run", "--fail-on", "tr") == ["truncated"])
        #expect(try await completions("megaton", "worker", "--log-level", "war") == ["warning"])
    }
}
