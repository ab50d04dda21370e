/// Advice to give the same command again, after a batch that was not done whole.
struct RepeatAdvice: Sendable, Equatable {
    /// Whether the user has named the batch: no second batch can have its name.
    var isNamed = false
    /// Whether `--force` was given, with which finished work is done again too.
    var makesAll = false

    /// The subject of a clause.
    ///
    /// - Parameter exists: whether Redis may have the batch.
    func command(exists: Bool = true) -> String {
        isNamed && exists ? "the same command under another --batch" : "the same command again"
    }

    /// A clause about jobs that have not ended.
    var clause: String {
        "\(command()) makes \(makesAll ? "all of them again, because of --force" : "the missing ones")"
    }

    /// A clause as a sentence.
    static func sentence(_ clause: String) -> String { "\(clause.prefix(1).uppercased())\(clause.dropFirst())." }
}

extension BatchOptions {
    var repetition: RepeatAdvice { RepeatAdvice(isNamed: isBatchNamed, makesAll: force) }
}
