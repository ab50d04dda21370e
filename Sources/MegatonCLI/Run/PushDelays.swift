/// Times from the push of a job to its end, without its fetch, as means of the jobs that were pushed at once: at the
/// beginning of a batch, each chunk waits longer in the queue than the one before.
struct PushDelays {
    private struct Chunk {
        let pushed: ContinuousClock.Instant
        var mean: Double
        var count = 1
    }

    /// The chunks of which a job has ended, in the order of their pushes.
    private var chunks: ArraySlice<Chunk> = []
    /// The mean of the last chunk that was noted.
    private var last: Double?

    /// Maximum number of chunks: with 500 jobs each, more than wait for workers at a time.
    private static let limit = 256

    /// - Parameter seconds: time from the push of a job to its end, without its fetch.
    mutating func note(_ seconds: Double, ofJobPushedAt pushed: ContinuousClock.Instant) {
        let seconds = max(0, seconds)
        var index = chunks.endIndex
        while index > chunks.startIndex, chunks[index - 1].pushed >= pushed {
            index -= 1
            if chunks[index].pushed == pushed {
                chunks[index].count += 1
                chunks[index].mean += (seconds - chunks[index].mean) / Double(chunks[index].count)
                last = chunks[index].mean
                return
            }
        }
        // An earlier push than those that are kept says little about the present.
        guard index > chunks.startIndex || chunks.count < Self.limit else { return }
        chunks.insert(Chunk(pushed: pushed, mean: seconds), at: index)
        last = seconds
        if chunks.count > Self.limit { chunks.removeFirst() }
    }

    /// Seconds from the push to the end of jobs that were pushed then; if none of them has ended, of others. Nil if no
    /// job has ended.
    func delay(ofJobsPushedAt pushed: ContinuousClock.Instant) -> Double? {
        chunks.last { $0.pushed <= pushed }.flatMap { $0.pushed == pushed ? $0.mean : nil } ?? last
    }
}
