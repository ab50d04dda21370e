import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Files that an output may replace, and files that are kept.
@Suite struct FileOutputTests {
    /// A directory for outputs, and the threads that write there.
    private final class Place {
        let directory: TestDirectory
        let threads = ThreadPool(name: "test", count: 1)
        let output: FileOutput

        init() throws {
            directory = try TestDirectory()
            try directory.write(Data(), to: "in/placeholder")
            try directory.write(Data(), to: "out/placeholder")
            let access = FileAccess(roots: [directory.path], outputRoots: [directory.path + "/out"])
            output = FileOutput(access: access, threads: threads)
        }

        deinit { threads.stop() }

        var path: String { directory.path + "/out/a.png" }

        /// The code of the error, or nil if the output was written.
        func write(
            _ data: Data,
            _ replacement: Job.Replacement,
            source: String? = nil,
            to path: String? = nil
        ) async -> ImagePipeline.Error.Code? {
            do throws(ImagePipeline.Error) {
                try await output.write([(path ?? self.path, data)], replacing: replacement, source: source)
                return nil
            } catch {
                let isNamed = error.message.contains(directory.path + "/out/")
                #expect(error.code != .outputExists || isNamed, "\(error.message)")
                return error.code
            }
        }
    }

    private static let image = TestImage.quarters(width: 8, height: 8)
    private static let other = TestImage.quarters(width: 8, height: 8, seed: 9)

    @Test(arguments: [
        (Data("my thesis".utf8), false), (Data(), true), (Data([0xFF, 0xD8, 0xFF, 0xE0]), false),
        (Data("GIF89a".utf8), false), (TestImage.quarters(width: 4, height: 4), true),
    ])
    func onlyAnImageOfTheSameTypeIsReplaced(_ old: Data, _ isReplaced: Bool) async throws {
        let place = try Place()
        try place.directory.write(old, to: "out/a.png")
        #expect(await place.write(Self.image, .images) == (isReplaced ? nil : .outputExists))
        #expect(FileManager.default.contents(atPath: place.path) == (isReplaced ? Self.image : old))
        #expect(await place.write(Self.other, .nothing) == .outputExists)
        #expect(await place.write(Self.other, .all) == nil)
        #expect(FileManager.default.contents(atPath: place.path) == Self.other)
        #expect(await place.write(Self.other, .nothing) == nil, "the same bytes replace nothing")
        #expect(place.directory.files.filter { $0.hasPrefix("out/.") }.isEmpty, "no temporary file is left")
    }

    /// After a power cut, files that were written shortly before are empty, or have NULs in place of their bytes.
    @Test(arguments: [0, 300, 5000])
    func aFileThatLostItsBytesIsMadeAgain(_ size: Int) async throws {
        let place = try Place()
        try Data(count: size).write(to: URL(fileURLWithPath: place.path))
        #expect(await place.write(Self.image, .images) == nil)
    }

    /// Fault: a file that begins with many NULs, such as one that another program is still writing, was replaced.
    @Test func aFileWithContentBehindItsNULsStays() async throws {
        let place = try Place()
        try (Data(count: 100_000) + Data([1])).write(to: URL(fileURLWithPath: place.path))
        #expect(await place.write(Self.image, .images) == .outputExists)
    }

    @Test func aLinkAndAPipeStay() async throws {
        let place = try Place()
        let target = try place.directory.write(Self.other, to: "in/target.png")
        try #require(symlink(target, place.path) == 0)
        #expect(await place.write(Self.image, .images) == .outputExists)
        #expect(await place.write(Self.image, .all) == nil)
        #expect(FileManager.default.contents(atPath: target) == Self.other, "the link is replaced, not its target")
        let pipe = place.directory.path + "/out/pipe.png"
        try #require(mkfifo(pipe, 0o600) == 0)
        #expect(await place.write(Self.image, .images, to: pipe) == .outputExists)
        let folder = place.directory.path + "/out/folder.png"
        try #require(mkdir(folder, 0o700) == 0)
        try place.directory.write(Self.other, to: "out/folder.png/inside.png")
        for replacement in Job.Replacement.allCases {
            #expect(await place.write(Self.image, replacement, to: folder) == .outputFailed)
        }
        #expect(FileManager.default.contents(atPath: folder + "/inside.png") == Self.other)
        #expect(place.directory.files.filter { $0.contains(".megaton") }.isEmpty)
    }

    /// By any name: another path, a link to its directory, a link to it, a hard link.
    @Test func aSourceIsNeverReplaced() async throws {
        let place = try Place()
        let folder = place.directory.path + "/out"
        let source = try place.directory.write(Self.other, to: "out/source.png")
        try #require(symlink(folder, place.directory.path + "/in/link") == 0)
        try #require(Foundation.link(source, folder + "/second.png") == 0)
        try #require(symlink(source, folder + "/symlink.png") == 0)
        for path in ["\(folder)/source.png", "\(folder)/./source.png", "\(folder)/second.png", "\(folder)/symlink.png"]
        {
            for spelling in [source, "\(place.directory.path)/in/link/source.png", "\(folder)/symlink.png"] {
                #expect(
                    await place.write(Self.image, .all, source: spelling, to: path) == .outputExists,
                    "\(spelling) to \(path)"
                )
            }
        }
        #expect(FileManager.default.contents(atPath: source) == Self.other)
    }

    @Test func allOutputsOfAJobAreWrittenOrNone() async throws {
        let place = try Place()
        try place.directory.write(Data("text".utf8), to: "out/b.png")
        let files = [(place.path, Self.image), (place.directory.path + "/out/b.png", Self.image)]
        await #expect(throws: ImagePipeline.Error.self) { try await place.output.write(files, replacing: .images) }
        #expect(!FileManager.default.fileExists(atPath: place.path))
    }

    @Test func rootsForReadingAreNotWrittenTo() async throws {
        let place = try Place()
        #expect(await place.write(Self.image, .all, to: place.directory.path + "/in/a.png") == .forbidden)
        try #require(symlink(place.directory.path + "/in", place.directory.path + "/out/in") == 0)
        #expect(await place.write(Self.image, .all, to: place.directory.path + "/out/in/a.png") == .forbidden)
        #expect(place.directory.files.allSatisfy { !$0.hasSuffix(".png") }, "\(place.directory.files)")
    }

    /// Fault: a directory whose name has the same letters in another Unicode normalization was taken for the root.
    @Test func aDirectoryThatOnlyReadsLikeARootIsNone() throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        for name in ["\u{E9}", "e\u{301}"] { try directory.write(Data("x".utf8), to: name + "/file.png") }
        let access = FileAccess(roots: [directory.path + "/\u{E9}"])
        _ = try access.file(at: directory.path + "/\u{E9}/file.png")
        close(try access.openOutput(at: directory.path + "/\u{E9}/a.png").descriptor)
        let other = directory.path + "/e\u{301}"
        func isForbidden(_ error: any Error) -> Bool { (error as? ImagePipeline.Error)?.code == .forbidden }
        #expect { _ = try access.file(at: other + "/file.png") } throws: { isForbidden($0) }
        #expect { _ = try access.openOutput(at: other + "/a.png") } throws: { isForbidden($0) }
    }

    @Test func jobsSayWhatTheyMayReplace() throws {
        let json = #"{"source":"https://example.org/a.jpg","replace":"none","reload":true}"#
        let job = try Job(json: Data(json.utf8))
        #expect(job.replace == .nothing && job.reload == true)
        #expect(try Job(json: job.json()) == job)
        #expect(throws: JobError.self) { try Job(json: Data(#"{"source":"https://a.b/c","replace":"some"}"#.utf8)) }
        let refused = Job(source: "https://example.org/a.jpg")
        #expect(throws: JobError("the job is refused: it is too late")) {
            var refused = refused
            refused.refused = "it is too late"
            _ = try Job(json: refused.json())
        }
    }

    /// A job that began earlier, with an older original, and ends later.
    @Test func anOlderVersionDoesNotReplaceANewerOne() async throws {
        let place = try Place()
        func write(_ data: Data, _ fetched: Double, _ rendition: String = "a") async throws -> [String] {
            let version = OutputVersion(fetched: fetched, rendition: rendition)
            return try await place.output.write([(place.path, data)], replacing: .images, versions: [version])
        }
        func bytes() -> Data? { FileManager.default.contents(atPath: place.path) }
        #expect(try await write(Self.image, 200).isEmpty)
        #expect(try await write(Self.other, 100) == [place.path])
        #expect(bytes() == Self.image)
        #expect(try await write(Self.other, 300).isEmpty && bytes() == Self.other)
        #expect(try await write(Self.other, 500).isEmpty, "the same bytes, confirmed")
        #expect(try await write(Self.image, 400) == [place.path] && bytes() == Self.other)
        #expect(try await write(Self.image, 100, "b").isEmpty && bytes() == Self.image, "another rendition")
        #expect(try await place.output.write([(place.path, Self.other)]).isEmpty && bytes() == Self.other)
    }

    @Test func aVersionOfTheFutureIsIgnored() async throws {
        let place = try Place()
        let now = Date().timeIntervalSince1970
        for (data, fetched) in [(Self.image, now + 86_400), (Self.other, now)] {
            let version = OutputVersion(fetched: fetched, rendition: "a")
            let kept = try await place.output.write([(place.path, data)], replacing: .images, versions: [version])
            #expect(kept.isEmpty && FileManager.default.contents(atPath: place.path) == data)
        }
    }
}
