import Foundation
import FoundationNetworking

extension LoadTrial {
    func wholeBody() async throws(ConformanceFailure) {
        for resource in [Resource.bytes(1), .bytes(1000), .bytes(1 << 20), .chunks(20)] {
            try requireSuccess(try await completion(of: start(resource)), resource)
        }
    }

    func responseWithEachChunk() async throws(ConformanceFailure) {
        let record = try await completion(of: start(.chunks(20)))
        try requireSuccess(record, .chunks(20))
        for chunk in record.chunks {
            guard let response = chunk.response as? HTTPURLResponse else {
                throw failure("a chunk came with \(type(of: chunk.response)), which is no HTTPURLResponse")
            }
            try require(response.statusCode == 200, "a chunk came with the status \(response.statusCode)")
            let url = conformance.origin.url(.chunks(20))
            try require(response.url == url, "a chunk came with the URL \(response.url?.absoluteString ?? "nil")")
        }
        let whole = try await completion(of: start(.bytes(1000)))
        let length = (whole.chunks.first?.response as? HTTPURLResponse)?.value(forHTTPHeaderField: "Content-Length")
        try require(length == "1000", "Content-Length of the response was \(length ?? "nil"), not 1000")
        let expected = whole.chunks.first?.response.expectedContentLength
        try require(expected == 1000, "expectedContentLength was \(expected.map(String.init) ?? "nil"), not 1000")
    }

    func incrementalDelivery() async throws(ConformanceFailure) {
        let load = start(.hang(1000))
        let record = try await wait(for: load, "what had been sent of an endless body") { $0.body.count >= 1000 }
        load.cancel()
        try requireNoViolation(record)
        try require(!record.isComplete, "a body that has no end ended: \(record.summary)")
        try require(record.body == Resource.hang(1000).body, "the bytes are not those that were sent")
    }

    func oneCallAtATime() async throws(ConformanceFailure) {
        let resources = (0..<8).map { $0.isMultiple(of: 2) ? Resource.chunks(10 + $0) : .bytes(100_000 + $0) }
        for (resource, load) in resources.map({ ($0, start($0)) }) {
            try requireSuccess(try await completion(of: load), resource)
        }
    }

    func emptyBody() async throws(ConformanceFailure) {
        let load = start(.bytes(0))
        try requireSuccess(try await completion(of: load), .bytes(0))
        try await settle()
        try requireNoViolation(load.recorder.record)
    }
}
