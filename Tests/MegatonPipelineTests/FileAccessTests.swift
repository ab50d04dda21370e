import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

@Suite struct FileAccessTests {
    private func code(_ body: () throws -> Void) -> ImagePipeline.Error.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? ImagePipeline.Error)?.code
        }
    }

    @Test func readsBeneathItsRoots() throws {
        let directory = try TestDirectory()
        let path = try directory.write(Data("image".utf8), to: "in/a b.jpg")
        let access = FileAccess(roots: [directory.path + "/in"])
        let file = try access.file(at: path)
        #expect(file.size == 5)
        #expect(try access.read(file, limit: 5) == Data("image".utf8))
        #expect(code { _ = try access.read(file, limit: 4) } == .dataTooLarge)
    }

    @Test func isNotLedOut() throws {
        let directory = try TestDirectory()
        let secret = try directory.write(Data("secret".utf8), to: "secret.jpg")
        try directory.write(Data(), to: "in/a.jpg")
        try directory.write(Data(), to: "inner/b.jpg")
        let fileManager = FileManager.default
        try fileManager.createSymbolicLink(atPath: directory.path + "/in/link.jpg", withDestinationPath: secret)
        try fileManager.createSymbolicLink(atPath: directory.path + "/in/up", withDestinationPath: directory.path)
        let access = FileAccess(roots: [directory.path + "/in"])
        for path in ["in/../secret.jpg", "in/link.jpg", "in/up/secret.jpg", "secret.jpg", "inner/b.jpg"] {
            #expect(code { _ = try access.file(at: "\(directory.path)/\(path)") } == .forbidden, "\(path)")
        }
        #expect(code { _ = try access.file(at: "in/a.jpg") } == .forbidden)
        #expect(code { _ = try access.file(at: directory.path + "/in/a.jpg\0x") } == .forbidden)
        #expect(code { _ = try access.file(at: directory.path + "/in") } == .forbidden)
        #expect(code { _ = try access.file(at: directory.path + "/in/none.jpg") } == .notFound)
        #expect(code { _ = try FileAccess(roots: []).file(at: secret) } == .forbidden)
    }

    @Test func aRootMayBeALink() throws {
        let directory = try TestDirectory()
        let path = try directory.write(Data("x".utf8), to: "real/a.jpg")
        try FileManager.default.createSymbolicLink(
            atPath: directory.path + "/alias",
            withDestinationPath: directory.path + "/real"
        )
        #expect(try FileAccess(roots: [directory.path + "/alias"]).file(at: path).size == 1)
        #expect(try FileAccess(roots: [directory.path + "/real"]).file(at: directory.path + "/alias/a.jpg").size == 1)
    }

    /// The directory of an output is looked at again when it is open: by then it may be a link that leads out.
    @Test func aDirectoryThatWasSwappedIsNotWrittenTo() throws {
        let directory = try TestDirectory()
        let root = directory.path + "/out"
        try directory.write(Data(), to: "elsewhere/a.txt")
        try directory.write(Data(), to: "out/b.txt")
        let access = FileAccess(roots: [root])
        let (place, name) = try access.prepareOutput(at: root + "/deep/c.jpg")
        #expect(name == "c.jpg")
        close(try access.openDirectory(place))
        try FileManager.default.removeItem(atPath: place)
        #expect(code { _ = try access.openDirectory(place) } == .outputFailed, "it is gone")
        try FileManager.default.createSymbolicLink(
            atPath: place,
            withDestinationPath: directory.path + "/elsewhere"
        )
        #expect(code { _ = try access.openDirectory(place) } == .forbidden)
    }

    @Test func makesTheDirectoriesOfOutputsBeneathItsRoots() throws {
        let directory = try TestDirectory()
        let access = FileAccess(roots: [directory.path])
        let (folder, name) = try access.prepareOutput(at: directory.path + "/a/b/c.jpg")
        #expect(folder == directory.path + "/a/b" && name == "c.jpg")
        #expect(FileManager.default.fileExists(atPath: folder))
        try FileManager.default.createSymbolicLink(atPath: directory.path + "/out", withDestinationPath: "/tmp")
        #expect(code { _ = try access.prepareOutput(at: directory.path + "/out/x.jpg") } == .forbidden)
        #expect(code { _ = try access.prepareOutput(at: "/nowhere/at/all.jpg") } == .forbidden)
        #expect(code { _ = try access.prepareOutput(at: directory.path + "/../x.jpg") } == .forbidden)
        #expect(!FileManager.default.fileExists(atPath: "/nowhere"))
    }
}
