import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// Destination of a batch's outputs: the value of `--output`.
enum OutputTarget: Sendable, Equatable {
    /// Files of the workers, beneath a directory.
    case directory(String)
    /// Shards that the client writes, in a directory.
    case shards(String)

    private static let shardPrefix = "tar:"

    /// - Parameter text: a path, or `tar:` and a path.
    init(_ text: String) {
        self =
            text.hasPrefix(Self.shardPrefix)
            ? .shards(String(text.dropFirst(Self.shardPrefix.count))) : .directory(text)
    }

    /// The directory.
    var path: String {
        switch self {
        case .directory(let path), .shards(let path): path
        }
    }

    var isShards: Bool { if case .shards = self { true } else { false } }
}

extension BatchOptions {
    /// Checks `--output` with the options that go with it.
    ///
    /// - Throws: `ValidationError` if they contradict each other.
    func checkOutput(_ output: String?) throws {
        let target = output.map(OutputTarget.init)
        if target?.path.isEmpty == true { throw ValidationError("--output is empty; it must name a directory.") }
        try OptionRange.check("--shard-size", shardSize, 1...1_048_576, " MiB")
        try OptionRange.check("--shard-count", shardCount, 1...1_000_000)
        guard target?.isShards == true else {
            let given = [("--shard-size", shardSize), ("--shard-count", shardCount)].filter { $0.1 != nil }
            if let option = given.first(where: { !OptionOrigins.isConfigured($0.0) })?.0 {
                throw ValidationError("\(option) is for shards: --output tar:DIR.")
            }
            return try checkName(output: target?.path)
        }
        if name != nil {
            throw ValidationError(
                "--name does not go with --output tar:DIR: members of shards are named by the ids of their jobs."
            )
        }
        if dryRun { throw ValidationError("--dry-run does not go with --output tar:DIR; leave --output out.") }
    }

    /// Opens the shards in a directory, which is created.
    ///
    /// - Parameters:
    ///   - directory: absolute path.
    ///   - ledger: continued by the lines that it lacks.
    /// - Throws: `CLIError` if they cannot be written, or have other renditions.
    func shardOutput(_ directory: String?, _ ledger: Ledger?) async throws -> ShardOutput? {
        guard let directory, let ledger else { return nil }
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            throw CLIError.output("the directory \(directory) cannot be created: \(CLIError.reason(error)).")
        }
        return try await ShardOutput.open(
            directory,
            limits: shardLimits,
            renditions: try renditionIdentity(),
            ledger: ledger
        )
    }

    /// The renditions of the options as a text: another text stands for other renditions.
    private func renditionIdentity() throws -> String {
        let known = try presets.load()
        let preset = presets.preset.flatMap { known[$0] }
        // Only the coordinator knows this one.
        if preset == nil, let name = presets.preset { return "preset \(name)" }
        return try (preset ?? renditions.renditions()).map { ([$0.name] + $0.identity).joined(separator: " ") }
            .joined(separator: "\n")
    }

    /// The sizes at which a shard is full.
    private var shardLimits: TarShards.Limits {
        TarShards.Limits(size: (shardSize ?? 1024) * 1024 * 1024, count: shardCount ?? 100_000)
    }
}
