import Foundation
import FoundationNetworking
import MegatonPipeline

extension LoadTrial {
    func cancelAtOnce() async throws(ConformanceFailure) {
        let loads = (0..<20).map { _ in
            let load = start(.hang(0))
            load.cancel()
            return load
        }
        try await settle()
        for load in loads { try requireNoViolation(load.recorder.record) }
    }

    func cancelMidStream() async throws(ConformanceFailure) {
        for resource in [Resource.hang(1000), .chunks(1000)] {
            let load = start(resource)
            try await wait(for: load, "a chunk") { !$0.chunks.isEmpty }
            load.cancel()
            try await settle()
            let record = load.recorder.record
            try requireNoViolation(record)
            try require(!record.isComplete, "\(resource.path): completion was called; there were \(record.summary)")
        }
    }

    func cancelWithinCallback() async throws(ConformanceFailure) {
        let load = start(.chunks(1000))
        load.recorder.cancelWithinNextCall(load.handle)
        try await wait(for: load, "a chunk") { $0.isCancelled || $0.isComplete }
        try await settle()
        let record = load.recorder.record
        try requireNoViolation(record)
        try require(!record.isComplete, "completion was called; there were \(record.summary)")
    }

    func cancelUnderFire() async throws(ConformanceFailure) {
        for _ in 0..<10 {
            let loads = (0..<10).map { start(.bytes(300_000 + $0)) }
            try await wait(for: loads[0], "a call") { $0.calls > 0 }
            for load in loads { load.cancel() }
            try await settle()
            for load in loads { try requireNoViolation(load.recorder.record) }
        }
    }

    func cancelTwice() async throws(ConformanceFailure) {
        let load = start(.hang(1000))
        try await wait(for: load, "a chunk") { !$0.chunks.isEmpty }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { load.handle.cancel() } }
        }
        load.cancel()
        try await settle()
        let record = load.recorder.record
        try requireNoViolation(record)
        try require(!record.isComplete, "completion was called; there were \(record.summary)")
    }

    func cancelAfterCompletion() async throws(ConformanceFailure) {
        let loads = [Resource.bytes(1000), .status(404)].map { start($0) }
        for load in loads {
            _ = try await completion(of: load)
            load.cancel()
        }
        try await settle()
        for load in loads { try requireNoViolation(load.recorder.record) }
    }

    func cancelOfSome() async throws(ConformanceFailure) {
        let resources = (0..<40).map { Resource.chunks(5 + $0 % 10) }
        let loads = resources.map { start($0) }
        for load in loads.enumerated().filter({ $0.offset.isMultiple(of: 2) }) { load.element.cancel() }
        for (offset, load) in loads.enumerated() where !offset.isMultiple(of: 2) {
            try requireSuccess(try await completion(of: load), resources[offset])
        }
        for load in loads { try requireNoViolation(load.recorder.record) }
    }
}
