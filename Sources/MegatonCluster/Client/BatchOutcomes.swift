internal import Foundation

/// The outcomes of a batch as a sequence; see ``Batch/outcomes``.
struct BatchOutcomes: AsyncSequence, Sendable {
    let batch: Batch
    /// Number of the first outcome; nil for the first one that no reader has acknowledged.
    let number: Int?

    func makeAsyncIterator() -> Iterator { Iterator(reader: OutcomeReader(batch, from: number)) }

    struct Iterator: AsyncIteratorProtocol {
        let reader: OutcomeReader
        private var page: ArraySlice<Data> = []
        private var isOver = false

        init(reader: OutcomeReader) { self.reader = reader }

        mutating func next() async throws -> JobOutcome? {
            if isOver { return nil }
            do {
                try Task.checkCancellation()
                if page.isEmpty { page = try await reader.page()[...] }
                if let line = page.popFirst() { return try outcome(line) }
                isOver = true
                return nil
            } catch {
                isOver = true
                throw error
            }
        }

        private func outcome(_ line: Data) throws -> JobOutcome {
            do {
                return try JobOutcome(json: line)
            } catch {
                throw ClusterError(
                    .unreadableOutcome,
                    "An outcome of the batch \(reader.name) cannot be read; a later version of Megaton may have "
                        + "written it: \(error)"
                )
            }
        }
    }
}
