<?php

// eislambey/rsmq, or compat/php/client.php in its place: `php rsmq.php PORT`.
// ../contender.py has the format of questions and answers.

declare(strict_types=1);

$compat = __DIR__ . '/../../../compat/php';
if (is_file("{$compat}/vendor/autoload.php")) {
    require "{$compat}/vendor/autoload.php";
}
$real = class_exists(\Islambey\RSMQ\RSMQ::class);
if (!$real) {
    require "{$compat}/client.php";
}

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1]);
$class = $real ? \Islambey\RSMQ\RSMQ::class : \Rsmq\Compat\Client::class;
$client = new $class($redis, 'rsmq', false);

function cpuSeconds(): float
{
    $used = getrusage();
    return $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']
        + ($used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec']) / 1e6;
}

/** Sends, or receives and deletes; the characters of bodies that were read. */
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
    $question = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    try {
        if ($question['op'] === 'versions') {
            $answer = ['PHP' => PHP_VERSION, 'php-redis' => phpversion('redis')];
            $answer['php-rsmq'] = $real
                ? \Composer\InstalledVersions::getPrettyVersion('eislambey/rsmq')
                : 'stand-in, compat/php/client.php';
        } else {
            ['action' => $action, 'queue' => $queue, 'body' => $body, 'count' => $count] = $question;
            [$cpu, $begin] = [cpuSeconds(), hrtime(true)];
            $characters = work($client, $action, $queue, $body, $count);
            $answer = [
                'seconds' => (hrtime(true) - $begin) / 1e9,
                'cpu_seconds' => cpuSeconds() - $cpu,
                'characters' => $characters,
            ];
        }
    } catch (Throwable $error) {
        $answer = ['error' => $error::class . ": {$error->getMessage()}"];
    }
    fwrite(STDOUT, json_encode($answer, JSON_THROW_ON_ERROR) . "\n");
}
