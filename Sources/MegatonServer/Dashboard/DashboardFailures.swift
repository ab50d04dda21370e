internal import MegatonCluster

/// The newest dead jobs by the code of their error, with the images that they concern.
struct DashboardFailures: Encodable, Sendable, Equatable {
    struct Cause: Encodable, Sendable, Equatable {
        let code: String
        /// Number of the examined jobs that have the code.
        var count: Int
        /// The newest message.
        let message: String
        /// The newest jobs first.
        var jobs: [FailedImage]
    }

    /// A dead job.
    struct FailedImage: Encodable, Sendable, Equatable {
        let id: String
        /// Empty for a job without one.
        let batch: String
        /// The URL of the image without its secrets; nil if another text was pushed, as the message then says.
        let source: String?
        let message: String
        let attempts: Int
        /// Seconds since 1970.
        let died: Int
    }

    /// Number of all dead jobs.
    let total: Int
    /// Number of those that were examined, the newest.
    let examined: Int
    /// Poison first, then the most frequent.
    let causes: [Cause]
    /// Number of examined jobs whose codes are not listed.
    let others: Int

    /// Maximum number of dead jobs that are read.
    static let maximumExamined = 100
    /// The code of a job that killed processes of workers: one harms more than many that fail.
    private static let poison = "poison"
    private static let maximumCauses = 10
    private static let maximumImages = 10
    /// Characters of a source, and of a message.
    private static let maximumText = 300

    init(_ newest: NewestDeadLetters) {
        var causes: [String: Cause] = [:]
        for letter in newest.letters {
            let code = letter.content.code
            var cause =
                causes[code]
                ?? Cause(code: code, count: 0, message: Self.shortened(letter.content.message), jobs: [])
            cause.count += 1
            if cause.jobs.count < Self.maximumImages { cause.jobs.append(Self.image(letter)) }
            causes[code] = cause
        }
        func rank(_ cause: Cause) -> Int { cause.code == Self.poison ? .max : cause.count }
        let sorted = causes.values.sorted { (rank($1), $0.code) < (rank($0), $1.code) }
        self.causes = Array(sorted.prefix(Self.maximumCauses))
        (total, examined) = (newest.total, newest.letters.count)
        others = sorted.dropFirst(Self.maximumCauses).reduce(0) { $0 + $1.count }
    }

    private static func image(_ letter: DeadLetter) -> FailedImage {
        FailedImage(
            id: letter.id,
            batch: letter.batch ?? "",
            source: letter.shownSource.map(shortened),
            message: shortened(letter.content.message),
            attempts: letter.content.attempts,
            died: Int(min(max(letter.died, 0), 1e12))
        )
    }

    private static func shortened(_ text: String) -> String {
        text.count > maximumText ? "\(text.prefix(maximumText - 1))…" : text
    }
}
