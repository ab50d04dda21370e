import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// Permissions of files with secrets, and those that systemd provides.
@Suite struct SecretFileTests {
    /// The mode, whether the file is exposed, and whether it is as a credential.
    private static let modes: [(Int, Bool, Bool)] = [
        (0o400, false, false), (0o600, false, false), (0o440, true, false), (0o640, true, false), (0o444, true, true),
        (0o604, true, true),
    ]

    /// Fault: a file of `LoadCredential=` was called readable by others, and `chmod` cannot change it.
    @Test(arguments: modes)
    func theGroupMayReadACredentialOfSystemd(_ mode: Int, _ isExposed: Bool, _ isExposedCredential: Bool) throws {
        let directory = try TestDirectory()
        let environment = ["CREDENTIALS_DIRECTORY": directory.path + "/run"]
        let secret = Data("secret".utf8)
        for name in ["run/key", "run.other/key", "key"] {
            let path = try directory.write(secret, to: name)
            try #require(chmod(path, mode_t(mode)) == 0)
        }
        try #require(symlink("run/key", directory.path + "/link") == 0)
        func isFound(_ name: String, _ environment: [String: String]) throws -> Bool {
            let file = try SecretFile("\(directory.path)/\(name)", option: "--webhook-key", environment: environment)
            #expect(file.content == secret)
            return file.isExposed
        }
        for name in ["run/key", "link", "run/../run/key"] {
            #expect(try isFound(name, environment) == isExposedCredential, "\(name)")
            #expect(try isFound(name, [:]) == isExposed, "\(name)")
        }
        for name in ["key", "run.other/key", "run/../key"] {
            #expect(try isFound(name, environment) == isExposed, "\(name)")
        }
    }

    @Test func aCredentialIsThatOfRootOrOfTheUser() {
        let mode: mode_t = S_IFREG | 0o440
        for (owner, isExposed) in [(0, false), (geteuid(), false), (geteuid() + 1, true)] {
            #expect(
                SecretFile.permissions(mode, owner: owner, isCredential: true) == (isExposed ? 0o440 : 0o400),
                "\(owner)"
            )
            #expect(SecretFile.permissions(mode, owner: owner, isCredential: false) == 0o440, "\(owner)")
        }
    }
}
