<?php

// eislambey/rsmq, or compat/php/client.php instead: `php rsmq.php PORT`.
// ../contender.py describes the format of requests and replies.

declare(strict_types=1);

$compat = __DIR__ . '/../../../compat/php';
if (is_file("{$compat}/vendor/autoload.php")) {
    require "{$compat}/vendor/autoload.php";
}
$isOriginal = class_exists(\Islambey\RSMQ\RSMQ::class);
if (!$isOriginal) {
    require "{$compat}/client.php";
}

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1]);
$class = $isOriginal ? \Islambey\RSMQ\RSMQ::class : \Rsmq\Compat\Client::class;
$client = new $class($redis, 'rsmq', false);

function cpuSeconds(): float
{
    $usage = getrusage();
    return $usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']
        + ($usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']) / 1e6;
}

/** Sends, or receives and deletes; returns the number of characters of bodies that were read. */
function work(object $client, string $action, string $queue, string $body, int $count): int
{
    $characters = 0;
    for ($turn = 0; $turn < $count; $turn++) {
        if ($action === 'send') {
            $client->sendMessage($queue, $body);
        } else {
            $message = $client->receiveMessage($queue);
            $characters += strlen($message['message']);
            $client->deleteMessage($queue, $message['id']);
        }
    }
    return $characters;
}

while (($line = fgets(STDIN)) !== false) {
    $request = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    try {
        if ($request['op'] === 'versions') {
            $reply = ['PHP' => PHP_VERSION, 'php-redis' => phpversion('redis')];
            $reply['php-rsmq'] = $isOriginal
                ? \Composer\InstalledVersions::getPrettyVersion('eislambey/rsmq')
                : 'stand-in, compat/php/client.php';
        } else {
            ['action' => $action, 'queue' => $queue, 'body' => $body, 'count' => $count] = $request;
            [$cpu, $begin] = [cpuSeconds(), hrtime(true)];
            $characters = work($client, $action, $queue, $body, $count);
            $reply = [
                'seconds' => (hrtime(true) - $begin) / 1e9,
                'cpu_seconds' => cpuSeconds() - $cpu,
                'characters' => $characters,
            ];
        }
    } catch (Throwable $error) {
        $reply = ['error' => $error::class . ": {$error->getMessage()}"];
    }
    fwrite(STDOUT, json_encode($reply, JSON_THROW_ON_ERROR) . "\n");
}
