internal import Foundation
internal import MegatonPipeline

extension JobValidator.Candidate {
    /// Bytes that it costs to admit it, about.
    var size: Int {
        switch verdict {
        case .valid(_, let json): json.count
        case .pack(let pack, _, _): pack.size
        case .invalid(let dead, _, _): dead.job.utf8.count
        }
    }

    /// Number of its sources.
    var sourceCount: Int {
        guard case .pack(let pack, _, let invalid) = verdict else { return 1 }
        return pack.sources.count + invalid.count
    }

    /// The jobs that the queue admits: a pack stays whole, or becomes jobs of one source each; its invalid sources
    /// become dead letters. Any other candidate stays as it is.
    ///
    /// A pack is split if its ids have to be compared with others, if its batch admits equal jobs only once, or if the
    /// queue cannot treat its sources alike: they have several hosts, idempotency keys or the same id.
    ///
    /// - Parameters:
    ///   - deduplicates: whether its batch admits equal jobs only once.
    ///   - idsAreUnique: whether no id of the batch can occur twice.
    func admitted(deduplicates: Bool, idsAreUnique: Bool) -> [Self] {
        guard case .pack(let pack, let hasMadeIDs, let invalid) = verdict else { return [self] }
        let refused = invalid.map { refusal($0, in: pack) }
        // Without a batch, only jobs that are alive are compared: the pack is, by its id.
        let needsNoComparison = idsAreUnique || hasMadeIDs || batch.isEmpty && pack.hasMadeSourceIDs
        if !deduplicates, needsNoComparison, pack.canStayWhole {
            let whole = Self(
                key: key,
                batch: batch,
                isOwn: isOwn,
                verdict: .pack(pack, hasMadeIDs: hasMadeIDs, invalid: [])
            )
            return [whole] + refused
        }
        return pack.sources.map { source in
            let job = pack.job(source)
            return Self(
                key: JobKey(batch: key.batch, id: source.id),
                batch: batch,
                isOwn: isOwn,
                verdict: .valid(job, json: job.json())
            )
        } + refused
    }

    private func refusal(_ source: Pack.Invalid, in pack: Pack) -> Self {
        let text = String(decoding: source.json.prefix(JobValidator.excerpt), as: UTF8.self)
        let identity = JobIdentity(source.json)
        let dead = DeadLetter.Content(
            code: "invalid_job",
            message: source.message,
            batch: batch.isEmpty ? nil : batch,
            labels: identity.labels,
            job: text
        )
        return Self(
            key: JobKey(batch: key.batch, id: identity.id ?? source.id),
            batch: batch,
            isOwn: isOwn,
            verdict: .invalid(dead, source: identity.source ?? text, job: nil),
            invalidReply: pack.shared.reply ?? identity.reply,
            invalidBatchSize: pack.shared.batchSize ?? identity.batchSize
        )
    }
}
