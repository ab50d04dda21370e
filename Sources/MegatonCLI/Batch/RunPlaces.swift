import Foundation

/// Where a run reads and writes.
struct RunPlaces: Sendable {
    /// Absolute; nil where a ledger is retried, whose jobs know where they go.
    let output: String?
    /// Of the ledger that is written.
    let ledger: String
    /// The directories that the run's own workers may read from and write to. What the user named by hand may be read:
    /// directories, and the places of files and lists; what a list names elsewhere needs an --allow-root.
    let roots: [String]

    /// Makes the output directory.
    ///
    /// - Throws: `Failure` where it cannot be made, or is an input too.
    init(_ options: BatchOptions, output: String?) throws {
        self.output = try output.map { try Self.prepare($0, inputs: options.inputs) }
        let retried = options.retryFailed.map(RetryLedger.init)
        if let ledger = options.ledger {
            self.ledger = URL(fileURLWithPath: ledger).standardizedFileURL.path
        } else if let retried {
            self.ledger = retried.successor
        } else {
            self.ledger = "\(self.output ?? ".")/megaton-ledger.jsonl"
        }
        try options.checkLedger(ledger)
        let all = (self.output.map { [$0] } ?? []) + Self.inputRoots(options.inputs) + (try retried?.roots() ?? [])
        roots = Array(Set(all)).sorted()
    }

    private static func prepare(_ output: String, inputs: [String]) throws -> String {
        let path = URL(fileURLWithPath: output).standardizedFileURL.path
        for input in inputs where URL(fileURLWithPath: input).standardizedFileURL.path == path {
            throw Failure.usage(
                "--output \(output) is an input too: the next run would take what this one made. Name another directory."
            )
        }
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw Failure.output("--output \(output) cannot be made: \(Failure.reason(error)).")
        }
        return path
    }

    private static func inputRoots(_ inputs: [String]) -> [String] {
        var roots: [String] = []
        // A list that is written here names, as a rule, what is here.
        let hasList = inputs.contains { $0 == "-" || $0.hasSuffix(".txt") || $0.hasSuffix(".jsonl") }
        if hasList { roots.append(FileManager.default.currentDirectoryPath) }
        for input in inputs where input != "-" && !InputReader.isURL(input) {
            let path = URL(fileURLWithPath: input).standardizedFileURL.path
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) else { continue }
            roots.append(isDirectory.boolValue ? path : (path as NSString).deletingLastPathComponent)
        }
        return roots
    }
}
