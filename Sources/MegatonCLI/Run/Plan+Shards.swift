import MegatonCommandLine

extension Plan {
    /// The part of a plan that is about `--output tar:DIR`.
    struct Shards: Codable, Sendable {
        /// Jobs that the shards have already. They are in no other number of the plan.
        var done: Int
        /// Inputs that were named before, and make no job.
        var repeated: Int
        /// Number of shards to be written; without known sizes, the least that it can be.
        var toWrite: Int
        /// Whether the sizes of the outputs are known from the last ledger.
        var hasSizes: Bool
        /// Whether the first of them is a partial one that an earlier run has left.
        var continues: Bool

        /// Bytes of an archive for a rendition beside its content, about.
        private static let memberSize = 1024
        /// Bytes of an archive for the line of a job, about.
        private static let lineSize = 1536

        /// Estimates the shards of new samples.
        ///
        /// - Parameter bytes: of all outputs; nil if their sizes are unknown.
        init(_ survey: ShardSurvey, jobs: Int, outputs: Int, bytes: Double?) {
            (done, repeated) = survey.known.leftOut
            continues = survey.partial != nil
            hasSizes = bytes != nil
            let partial = survey.partial ?? (size: 0, count: 0)
            let limits = survey.limits
            let overhead = Double(partial.size + outputs * Self.memberSize + jobs * Self.lineSize)
            let byCount = (Double(partial.count + jobs) / Double(limits.count)).rounded(.up)
            let bySize = ((bytes.map { $0 + overhead } ?? 0) / Double(limits.size)).rounded(.up)
            let least = jobs > 0 || continues ? 1.0 : 0
            toWrite = Int(exactly: max(byCount, jobs > 0 ? bySize : 0, least)) ?? Int.max
        }

        /// The shards in words.
        var text: String {
            let count = hasSizes || toWrite == 0 ? "\(toWrite)" : "at least \(toWrite)"
            let partial = continues ? "; the first is the partial one of an earlier run" : ""
            let reason = hasSizes || toWrite == 0 ? "" : ", as the sizes of the outputs are unknown"
            return "\(count) to be written\(reason)\(partial)"
        }
    }

    /// The plan of shards in sentences.
    ///
    /// - Parameter output: the directory of the shards.
    func lines(_ shards: Shards, _ output: String?) -> [String] {
        let place = output.map { " in shards of \(TextColumns.oneLine($0))" } ?? ""
        let repeated = shards.repeated > 0 ? ", and \(Counted.of(shards.repeated, "repeated input")) left out" : ""
        let least = presets > 0 ? "at least " : ""
        var lines = [
            "\(Counted.jobs(jobs)), \(least)\(Counted.of(outputs, "output"))\(place)",
            row("new", new) + ", which no shard has",
            "  \("kept".padded) \(Counted.jobs(shards.done)) already in the shards\(repeated)",
        ]
        if unknown > 0 { lines.append(row("unknown", unknown) + ": only the coordinator knows them") }
        lines.append(workLine)
        lines.append("  \("shards".padded) \(shards.text)")
        lines.append(estimateLine)
        return lines
    }
}
