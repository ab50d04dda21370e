package import Foundation

extension Pack {
    /// A pack in a line of a list, as jobs with one source each: an output is decided for each of them.
    package struct Line: Sendable, Equatable {
        /// A source that cannot be used.
        package struct Refused: Sendable, Equatable {
            package let id: String
            /// The source, or the beginning of its JSON if it has none that can be read.
            package let source: String
            package let message: String
        }

        package var jobs: [Job] = []
        package var refused: [Refused] = []
        /// Whether all ids were made from that of the caller.
        package var hasMadeIDs = true
    }

    /// Reads a line of a list.
    ///
    /// - Parameter id: id of the pack if it has none.
    /// - Returns: nil if the JSON has no field `sources`: it is no pack.
    package static func line(_ json: Data, id: String) -> Line? {
        do throws(JobError) {
            guard let pushed = try read(json, makeID: { id }) else { return nil }
            return Line(
                jobs: pushed.pack.sources.map(pushed.pack.job),
                refused: pushed.invalid.map(refused),
                hasMadeIDs: pushed.hasMadeIDs
            )
        } catch {
            // As a coordinator does: each of its sources has an outcome if they can be counted.
            let own = JobIdentity(json).id
            let id = own ?? id
            let all =
                refused(json, id: id, message: error.message) ?? [Invalid(id: id, json: json, message: error.message)]
            return Line(refused: all.map(refused), hasMadeIDs: own == nil)
        }
    }

    private static func refused(_ invalid: Invalid) -> Line.Refused {
        let text = String(decoding: invalid.json.prefix(JobOutcome.maximumSource), as: UTF8.self)
        return Line.Refused(id: invalid.id, source: JobIdentity(invalid.json).source ?? text, message: invalid.message)
    }
}
