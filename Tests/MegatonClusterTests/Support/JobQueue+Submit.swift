import Foundation
import MegatonRedis

@testable import MegatonCluster

extension JobQueue {
    /// Pushes jobs of one source each.
    func submit(
        _ jobs: some Collection<Data>,
        to batch: String,
        first: Int,
        isLast: Bool,
        policy: BatchPolicy,
        idsAreUnique: Bool = false,
        submitter: String
    ) async throws(RedisError) -> Int {
        try await push(
            jobs.map { PushedJob(json: $0) },
            to: batch,
            first: first,
            isLast: isLast,
            policy: policy,
            idsAreUnique: idsAreUnique,
            submitter: submitter
        )
    }
}

extension JobQueue {
    /// Claims jobs as one call of the script `claim`.
    func claim(
        _ limit: Int,
        running: Int,
        places: Int,
        ignoresShare: Bool,
        suspects: SuspectHandling,
        worker: String,
        lease: Duration,
        validUntil: ContinuousClock.Instant
    ) async throws(RedisError) -> Claim {
        try await claim(
            ClaimRequest(
                limit: limit,
                running: running,
                places: places,
                ignoresShare: ignoresShare,
                suspects: suspects,
                worker: worker,
                lease: lease,
                sent: .now,
                validUntil: validUntil
            )
        )
    }
}
