import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// Shards as files: their format, and their recovery.
@Suite(.timeLimit(.minutes(3))) struct TarShardsTests {
    /// A sample of one or more renditions of random bytes.
    static func sample(_ id: String, sizes: [Int] = [700], seed: UInt64 = 1) -> ShardSample {
        var generator = SeededGenerator(seed: seed)
        let data = sizes.map { size in Data((0..<size).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
        }
        let outputs = data.enumerated().map { index, data in
            #"{"name":"r\#(index)","width":8,"height":8,"format":"jpeg","bytes":\#(data.count),"from":"render","#
                + #""sha256":"\#(Checksum.sha256(data))"}"#
        }
        let line = Data(
            (#"{"attempts":1,"id":"\#(id)","outputs":[\#(outputs.joined(separator: ","))],"seconds":0,"#
                + #""source":"https://example.org/a.jpg","status":"done"}"#).utf8
        )
        guard let outcome = try? JSONDecoder().decode(JobOutcome.self, from: line) else {
            preconditionFailure("the line of the test is an outcome")
        }
        return ShardSample(outcome, line: line, data: data)
    }

    private static func shards(
        _ directory: TestDirectory,
        size: Int = 1 << 30,
        count: Int = 1000,
        renditions: String = "r",
        listed: Set<ShortDigest>? = nil
    ) throws -> TarShards {
        let limits = TarShards.Limits(size: size, count: count)
        return try TarShards(directory.path, limits: limits, renditions: renditions, listed: listed)
    }

    private static func tar(_ arguments: [String]) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest(program: "/usr/bin/env", arguments: ["tar"] + arguments)).ending()
    }

    @Test func tarReadsWhatWasWritten() async throws {
        let (directory, copy) = (try TestDirectory(), try TestDirectory())
        var shards = try Self.shards(directory)
        let long = String(repeating: "n", count: 128)
        let samples = [
            Self.sample("a", sizes: [700]), Self.sample("b.c:d", sizes: [0, 512, 513]),
            Self.sample(long, sizes: [1, 2], seed: 3),
        ]
        for sample in samples + [samples[0]] {
            let isNew = !shards.known.contains(sample.key)
            let isWritten = try shards.append(sample)
            #expect(isWritten == isNew, "a sample is written once")
        }
        try shards.finishShard()
        shards.close()
        #expect(directory.files == [ShardNames.manifest, "shard-000000.json", "shard-000000.tar"])
        let ending = try await Self.tar(["-xf", "\(directory.path)/shard-000000.tar", "-C", copy.path])
        #expect(ending.code == 0 && ending.errors.isEmpty, "\(ending.errors)")
        let members = samples.flatMap(\.members)
        #expect(copy.files == members.map(\.name).sorted())
        for member in members {
            #expect(FileManager.default.contents(atPath: "\(copy.path)/\(member.name)") == member.data)
        }
        #expect(members.map(\.name).prefix(2) == ["a.jpg", "a.json"], "one rendition needs no name")
        let listing = try await Self.tar(["-tf", "\(directory.path)/shard-000000.tar"])
        #expect(listing.output == members.map { $0.name + "\n" }.joined(), "a sample's members are together")
    }

    /// Fault: an archive that was copied from a backup was replaced by the unfinished one of the same number.
    @Test func anUnfinishedShardReplacesNoWholeOne() throws {
        let directory = try TestDirectory()
        var shards = try Self.shards(directory)
        _ = try shards.append(Self.sample("a"))
        try shards.commit()
        shards.close()
        let copy = try directory.write(Data("a backup".utf8), to: "shard-000000.tar")
        let error = #expect(throws: CLIError.self) { _ = try Self.shards(directory) }
        #expect("\(try #require(error))".contains("has both shard-000000.tar and .shard-000000.tar.partial"))
        #expect(FileManager.default.contents(atPath: copy) == Data("a backup".utf8))
    }

    @Test func anIndexLeadsToTheBytes() throws {
        let directory = try TestDirectory()
        var shards = try Self.shards(directory, count: 2)
        let samples = (0..<5).map { Self.sample("s\($0)", sizes: [300 + $0, 40], seed: UInt64($0)) }
        for sample in samples { _ = try shards.append(sample) }
        try shards.finishShard()
        shards.close()
        var found: [ShardIndex.Sample] = []
        for number in 0..<3 {
            let text = try Data(contentsOf: URL(fileURLWithPath: "\(directory.path)/\(ShardNames.index(number))"))
            let index = try JSONDecoder().decode(ShardIndex.self, from: text)
            #expect(index.shard == ShardNames.archive(number) && index.version == 1)
            let archive = try Data(contentsOf: URL(fileURLWithPath: "\(directory.path)/\(index.shard)"))
            for member in index.samples.flatMap(\.members) {
                let bytes = archive[member.offset..<member.offset + member.size]
                #expect(Checksum.sha256(Data(bytes)) == member.sha256)
            }
            found += index.samples
        }
        #expect(found.map(\.id) == samples.map(\.id), "two samples in each shard, and the last one in the third")
        #expect(found.map { $0.members.map(\.name) } == samples.map { $0.members.map(\.name) })
    }

    /// Against the encoder, also with names that only it can write.
    @Test(arguments: ["a", "ä/\"\\ü", "line\nend", "\u{7F}"]) func theIndexIsThatOfTheEncoder(_ name: String) throws {
        let member = ShardIndex.Member(name: name, offset: 512, size: 7, sha256: "ab")
        let samples = [
            ShardIndex.Sample(id: name, key: name, members: [member, member]),
            ShardIndex.Sample(id: "b", key: "b", members: []),
        ]
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        for samples in [samples, []] {
            let index = ShardIndex(shard: "shard-000000.tar", samples: samples)
            #expect(try index.json() == encoder.encode(index))
        }
    }

    @Test func aFullShardIsFollowedByAnother() throws {
        let directory = try TestDirectory()
        var shards = try Self.shards(directory, size: 20_000)
        for index in 0..<6 { _ = try shards.append(Self.sample("s\(index)", sizes: [6000])) }
        _ = try shards.append(Self.sample("large", sizes: [50_000]))
        try shards.finishShard()
        shards.close()
        let sizes = (0..<4).compactMap { number in
            (try? FileManager.default.attributesOfItem(atPath: "\(directory.path)/\(ShardNames.archive(number))"))?[
                .size
            ]
                as? Int
        }
        #expect(sizes.count == 4 && sizes.prefix(3).allSatisfy { $0 <= 21_024 }, "\(sizes)")
        #expect(sizes.last.map { $0 > 50_000 } == true, "a sample above the limit has a shard of its own")
    }

    /// Wherever a killed writer has stopped, the whole samples stay, and the rest can be written again.
    @Test func aPartialShardIsRecoveredFromEachTruncation() throws {
        let directory = try TestDirectory()
        let samples = [Self.sample("a"), Self.sample("b", sizes: [90, 600], seed: 2), Self.sample("c", seed: 3)]
        var ends: [Int] = []
        var writer = try ShardWriter(directory.path, number: 0)
        for sample in samples {
            try writer.append(sample, time: 1)
            ends.append(writer.size)
        }
        writer.close()
        let path = "\(directory.path)/\(ShardNames.partial(0))"
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        #expect(whole.count == ends.last)
        // A prime, so that the lengths lie everywhere in blocks of 512 bytes.
        for length in LongTests.sample(Array(0...whole.count), every: 7) + ends {
            try whole.prefix(length).write(to: URL(fileURLWithPath: path))
            var recovered = try ShardWriter(directory.path, number: 0)
            let complete = ends.count { $0 <= length }
            try #require(recovered.samples.map(\.id) == samples.prefix(complete).map(\.id), "\(length) bytes")
            for sample in samples.dropFirst(complete) { try recovered.append(sample, time: 1) }
            recovered.close()
            try #require(try Data(contentsOf: URL(fileURLWithPath: path)) == whole, "\(length) bytes")
        }
    }

    /// After a power cut the file may have its length, and zeros in the place of the last bytes.
    @Test func bytesThatDidNotReachTheDiskAreNoSample() throws {
        let directory = try TestDirectory()
        var writer = try ShardWriter(directory.path, number: 0)
        try writer.append(Self.sample("a"), time: 1)
        let end = writer.size
        try writer.append(Self.sample("b", sizes: [4000], seed: 2), time: 1)
        let size = writer.size
        writer.close()
        let path = "\(directory.path)/\(ShardNames.partial(0))"
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        for lost in stride(from: end, to: size - 512, by: 512) {
            var torn = whole
            torn.replaceSubrange(lost..<lost + 512, with: Data(count: 512))
            if torn == whole { continue }
            try torn.write(to: URL(fileURLWithPath: path))
            let recovered = try ShardWriter(directory.path, number: 0)
            #expect(recovered.samples.map(\.id) == ["a"] && recovered.size == end, "zeros at \(lost)")
            recovered.close()
        }
    }

    @Test func aDirectoryIsContinued() throws {
        let directory = try TestDirectory()
        var first = try Self.shards(directory, count: 2)
        let samples = (0..<3).map { Self.sample("s\($0)", seed: UInt64($0)) }
        for sample in samples { _ = try first.append(sample) }
        try first.commit()
        #expect(throws: CLIError.self, "one process writes a directory") { _ = try Self.shards(directory) }
        first.close()
        #expect(throws: CLIError.self, "the renditions are others") { _ = try Self.shards(directory, renditions: "x") }
        try FileManager.default.removeItem(atPath: "\(directory.path)/shard-000000.json")
        // The ledger has the line of the second sample only.
        let line = try #require(samples[1].members.last?.data)
        var second = try Self.shards(directory, count: 2, listed: [ShortDigest(of: line)])
        #expect(FileManager.default.fileExists(atPath: "\(directory.path)/shard-000000.json"), "it is written anew")
        let unlisted = [try second.takeUnlisted(1), try second.takeUnlisted(10), try second.takeUnlisted(10)]
        #expect(unlisted == [samples[0].members.suffix(1).map(\.data), samples[2].members.suffix(1).map(\.data), []])
        #expect(second.known.count == 3 && !second.known.admits("s1", isMade: true))
        #expect(second.known.admits("s3", isMade: true) && !second.known.admits("s3", isMade: true))
        let areWritten = [try second.append(samples[2]), try second.append(Self.sample("s3", seed: 9))]
        #expect(areWritten == [false, true])
        try second.finishShard()
        second.close()
        #expect(directory.files.filter { $0.hasSuffix(".tar") } == ["shard-000000.tar", "shard-000001.tar"])
    }

    @Test func aStopEndsTheScanOfAnArchive() throws {
        let directory = try TestDirectory()
        var shards = try Self.shards(directory)
        for index in 0..<5 { _ = try shards.append(Self.sample("s\(index)")) }
        try shards.finishShard()
        shards.close()
        try FileManager.default.removeItem(atPath: "\(directory.path)/shard-000000.json")
        var asked = 0
        do {
            let limits = TarShards.Limits(size: 1 << 30, count: 1000)
            var stopped = try TarShards(directory.path, limits: limits, renditions: "r", listed: nil) {
                asked += 1
                return asked == 4
            }
            stopped.close()
            Issue.record("all members were read")
        } catch let error as CLIError {
            #expect(error.code == 130 && asked == 4, "\(error.message)")
        }
        var again = try Self.shards(directory)
        #expect(again.known.count == 5, "the directory is free")
        again.close()
    }

    @Test func aDamagedShardIsReported() throws {
        let directory = try TestDirectory()
        var shards = try Self.shards(directory)
        _ = try shards.append(Self.sample("a"))
        try shards.finishShard()
        shards.close()
        try FileManager.default.removeItem(atPath: "\(directory.path)/shard-000000.json")
        let archive = URL(fileURLWithPath: "\(directory.path)/shard-000000.tar")
        var bytes = try Data(contentsOf: archive)
        bytes[600] ^= 1
        try bytes.write(to: archive)
        let error = #expect(throws: CLIError.self) { _ = try Self.shards(directory) }
        #expect(error?.message.contains("is damaged behind 0 samples, at byte 0") == true, "\(error?.message ?? "")")
    }

    @Test func aKeyHasNoPoint() {
        #expect(ShardSample.key(of: "a-b_c:1") == "a-b_c:1")
        let keys = ["a.b", "a_b", "a..b", "a._b"].map(ShardSample.key)
        #expect(Set(keys).count == 4 && keys.allSatisfy { !$0.contains(".") }, "\(keys)")
        let id = ShardSample.id(path: "x/größe v1.2", identity: "https://example.org/x")
        #expect(id.hasPrefix("gr__e_v1_2-") && Job.isName(id))
        #expect(id == ShardSample.id(path: "x/größe v1.2", identity: "https://example.org/x"))
        #expect(id != ShardSample.id(path: "x/größe v1.2", identity: "https://example.org/y"))
    }
}
